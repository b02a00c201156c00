#include "data/dataset_info.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "data/dataset_parts.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

constexpr const char* kEmbedded = "fashion-mnist-subset";

Path find_embedded(const std::vector<Path>& candidates) {
  std::string tried;
  for (const Path& candidate : candidates) {
    std::error_code error;
    for (const Path& folder : {candidate / kEmbedded, candidate}) {
      if (std::filesystem::is_regular_file(folder / "train-images-idx3-ubyte.gz", error)) return folder;
    }
    tried += (tried.empty() ? "" : ", ") + (candidate / kEmbedded).string();
  }
  throw DataError("the embedded data set is not found; looked for it in " + (tried.empty() ? "no folder" : tried) +
                  ". Name one with --data, set MGTRAIN_DATA to the folder data/ of mgtrain's source tree, or fetch the "
                  "whole set with scripts/get_data.sh fashion-mnist");
}

/// The counts of a share held out of the training part: at least one sample on either side.
void hold_out(const std::string& text, DatasetInfo& info) {
  const int64_t all = info.train.num_samples;
  const int64_t held = num_held_out(text, all);
  if (all < 2)
    throw DataError(info.path.string() + ": one training sample; --val " + text + " has nothing to hold out");
  info.train.num_samples = all - held;
  info.val = DatasetPart{.num_samples = held, .files = info.train.files};
}

void use_other_set(const DataConfig& config, DatasetInfo& info) {
  DataConfig other_config;
  other_config.path = config.val;
  other_config.labels = config.labels;
  Faults faults;
  const DatasetInfo other = inspect_parts(other_config, config.val, faults);
  const auto text = [](const DatasetInfo& set) {
    return set.format + ", " + std::to_string(set.channels) + " x " + std::to_string(set.height) + " x " +
           std::to_string(set.width) + ", " + std::to_string(set.num_classes) + " classes";
  };
  // A part for evaluation may lack some of the classes.
  if (other.format != info.format || other.channels != info.channels || other.height != info.height ||
      other.width != info.width || other.num_classes > info.num_classes) {
    throw DataError("--val " + config.val + " is " + text(other) + "; expected as the training set: " + text(info));
  }
  const bool named = other.class_names.front() != "0" && info.class_names.front() != "0";
  if (named && !std::equal(other.class_names.begin(), other.class_names.end(), info.class_names.begin())) {
    throw DataError("--val " + config.val + " names its classes otherwise than " + info.path.string() +
                    "; expected the same names in the same order");
  }
  info.val = other.val ? other.val : std::optional(other.train);
}

}  // namespace

int64_t num_held_out(const std::string& percent, int64_t count) {
  double share = 0;
  std::from_chars(percent.data(), percent.data() + percent.size(), share);
  const int64_t held = std::llround(static_cast<double>(count) * share / 100);
  return std::clamp<int64_t>(held, 1, std::max<int64_t>(1, count - 1));
}

bool holds_out(const DataConfig& config) {
  if (config.val.empty() || config.val.back() != '%') return false;
  double share = 0;
  const auto [rest, error] = std::from_chars(config.val.data(), config.val.data() + config.val.size(), share);
  return error == std::errc() && rest + 1 == config.val.data() + config.val.size();
}

std::vector<Path> embedded_data_candidates(const Path& program) {
  std::vector<Path> candidates;
  if (const char* given = std::getenv("MGTRAIN_DATA"); given != nullptr && *given != '\0')
    candidates.emplace_back(given);
  if (!program.empty()) {
    const Path folder = program.parent_path();
    candidates.push_back(folder.parent_path() / "share" / "mgtrain");   // PREFIX/bin/mgtrain
    candidates.push_back(folder.parent_path().parent_path() / "data");  // SOURCE/build/PRESET/mgtrain
  }
  return candidates;
}

DatasetInfo inspect_dataset(const DataConfig& config, const std::vector<Path>& embedded_candidates) {
  const Path path = config.path.empty() ? find_embedded(embedded_candidates) : Path(config.path);
  Faults faults;
  DatasetInfo info = inspect_parts(config, path, faults);
  if (info.train.num_samples == 0) {
    throw DataError(path.string() + ": has a part for evaluation but none for training; expected both");
  }
  if (holds_out(config)) {
    hold_out(config.val, info);
  } else if (config.val == "none") {
    info.val.reset();
  } else if (config.val != "auto") {
    use_other_set(config, info);
  }
  return info;
}

}  // namespace mgtrain
