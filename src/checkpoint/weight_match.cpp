#include "checkpoint/weight_match.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace mgtrain {

namespace {

constexpr size_t kMostNames = 10;
constexpr size_t kLongestShown = 200;

/// Whether every value of one float type is one of the other.
bool widens(std::string_view from, std::string_view to) {
  const bool half = from == "F16" || from == "BF16";
  return (half && (to == "F32" || to == "F64")) || (from == "F32" && to == "F64");
}

std::string describe(const TensorEntry& tensor) { return describe_tensor(tensor.dtype, tensor.shape); }

/// A name of a file by a stranger, fit for a log.
std::string shown(const std::string& name) {
  std::string text = name.size() <= kLongestShown ? name : name.substr(0, kLongestShown - 3) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

WeightMatch match_weights(const std::vector<TensorEntry>& from, const std::vector<TensorEntry>& into,
                          Conversion conversion) {
  WeightMatch match{.num_from = from.size(), .num_into = into.size()};
  std::unordered_map<std::string_view, const TensorEntry*> by_name;
  for (const TensorEntry& source : from) by_name.emplace(source.name, &source);
  std::unordered_set<std::string_view> wanted;
  for (const TensorEntry& target : into) {
    wanted.insert(target.name);
    const auto found = by_name.find(target.name);
    if (found == by_name.end()) {
      match.missing.push_back(target.name);
      continue;
    }
    const TensorEntry& source = *found->second;
    const bool dtype_fits =
        source.dtype == target.dtype || (conversion == Conversion::kWidens && widens(source.dtype, target.dtype));
    if (source.shape == target.shape && dtype_fits) {
      match.fitting.push_back(source);
    } else {
      match.misshapen.push_back(target.name);
      match.misshapen_text.push_back(target.name + " (file " + describe(source) + ", model " + describe(target) + ")");
      match.only_dtypes = match.only_dtypes && source.shape == target.shape;
    }
  }
  for (const TensorEntry& source : from) {
    if (!wanted.contains(source.name)) match.extra.push_back(source.name);
  }
  return match;
}

std::string describe_mismatch(const WeightMatch& match, const std::string& source) {
  std::string text = source + " does not fit the model: of its " + std::to_string(match.num_from) +
                     " tensors and the model's " + std::to_string(match.num_into) + ", " +
                     std::to_string(match.fitting.size()) + " fit";
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (!names.empty()) text += "; " + std::to_string(names.size()) + what + first_names(names);
  };
  add(match.misshapen_text, " of another shape or type: ");
  add(match.missing, " missing in the file: ");
  add(match.extra, " not in the model: ");
  return text;
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) text += (i == 0 ? "" : ", ") + shown(names[i]);
  if (names.size() > kMostNames) text += " and " + std::to_string(names.size() - kMostNames) + " more";
  return text;
}

}  // namespace mgtrain
