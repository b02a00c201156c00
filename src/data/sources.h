// Loading whole data sets into memory, with every record checked. Throws DataError naming file, record and value.
#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.h"
#include "data/dataset_info.h"
#include "data/image_set.h"

namespace mgtrain {

struct LoadedData {
  ImageSet train;
  ImageSet val;             // empty if there is none
  ChannelStats stats;       // of the training images after no augmentation
  std::string fingerprint;  // XXH3-128 (32 hex digits) over shape, labels and pixels of train and val
};

/// Loads what inspect_dataset found. `seed` draws synthetic images and a percentage held out of the training part.
LoadedData load_dataset(const DataConfig& config, const DatasetInfo& info, uint64_t seed);

}  // namespace mgtrain
