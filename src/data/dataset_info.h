// What a data set is, from its headers and sizes alone: read before anything else, checked in full before step 1.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace mgtrain {

struct DatasetPart {
  int64_t num_samples = 0;
  std::vector<std::filesystem::path> files;  // images then labels for IDX; batches for CIFAR; empty for synthetic
};

struct DatasetInfo {
  std::string format;                           // idx, cifar10, cifar100, synthetic
  std::filesystem::path path;                   // folder, or "synthetic:..."
  std::string name;                             // for people: "Fashion-MNIST subset", folder name, ...
  int64_t channels = 0, height = 0, width = 0;  // as stored
  int64_t num_classes = 0;
  std::vector<std::string> class_names;  // num_classes names ("0", "1", ... where the set has none)
  DatasetPart train;
  std::optional<DatasetPart> val;             // the part evaluation uses
  int64_t input_height = 0, input_width = 0;  // after data.resize
};

/// Finds and recognises the data set a config names; checks headers, sizes and counts against each other. Reads
/// headers (and whole label files) only. Throws DataError naming file, record, value seen and value wanted.
/// `embedded_candidates`: where the embedded data set may lie, in order.
DatasetInfo inspect_dataset(const DataConfig& config, const std::vector<std::filesystem::path>& embedded_candidates);

/// $MGTRAIN_DATA, share/mgtrain beside the installed program, the source tree's data folder.
std::vector<std::filesystem::path> embedded_data_candidates(const std::filesystem::path& program);

}  // namespace mgtrain
