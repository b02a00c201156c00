#include "checkpoint/weight_match.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "checkpoint/safetensors.h"

namespace mgtrain {

namespace {

constexpr size_t kMostNames = 10;

/// Whether every value of one float type is one of the other.
bool widens(at::ScalarType from, at::ScalarType to) {
  const bool half = from == at::kHalf || from == at::kBFloat16;
  return (half && (to == at::kFloat || to == at::kDouble)) || (from == at::kFloat && to == at::kDouble);
}

std::string describe(const at::Tensor& tensor) { return describe_tensor(dtype_name(tensor), tensor.sizes().vec()); }

}  // namespace

WeightMatch match_weights(const NamedTensors& from, const NamedTensors& into, Conversion conversion) {
  WeightMatch match{.num_from = from.size(), .num_into = into.size()};
  std::unordered_map<std::string, at::Tensor> by_name(from.begin(), from.end());
  for (const auto& [name, target] : into) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      match.missing.push_back(name);
      continue;
    }
    const at::Tensor& source = found->second;
    const bool dtype_fits = source.scalar_type() == target.scalar_type() ||
                            (conversion == Conversion::kWidens && widens(source.scalar_type(), target.scalar_type()));
    if (source.sizes() == target.sizes() && dtype_fits) {
      match.pairs.emplace_back(source, target);
    } else {
      match.misshapen.push_back(name);
      match.misshapen_text.push_back(name + " (file " + describe(source) + ", model " + describe(target) + ")");
    }
  }
  std::unordered_set<std::string> wanted;
  for (const auto& [name, target] : into) wanted.insert(name);
  for (const auto& [name, source] : from) {
    if (!wanted.contains(name)) match.extra.push_back(name);
  }
  return match;
}

std::string describe_mismatch(const WeightMatch& match, const std::string& source) {
  std::string text = source + " does not fit the model: of its " + std::to_string(match.num_from) +
                     " tensors and the model's " + std::to_string(match.num_into) + ", " +
                     std::to_string(match.pairs.size()) + " fit";
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
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNames) text += " and " + std::to_string(names.size() - kMostNames) + " more";
  return text;
}

void copy_weights(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs) {
  const at::NoGradGuard no_grad;
  for (const auto& [source, target] : pairs) target.copy_(source);
}

}  // namespace mgtrain
