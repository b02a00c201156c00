// A data set's own two parts, found, recognised and described, before --val has its say. Shared by the inspection
// before a run, by loading, and by `mgtrain data check`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "config/run_config.h"
#include "data/dataset_info.h"
#include "data/faults.h"
#include "data/image_set.h"

namespace mgtrain {

/// Recognises what lies at `path`, or takes it for what config.format says; reads headers, sizes and IDX labels. A
/// part that is not there has no samples (train) or is none (val).
DatasetInfo inspect_parts(const DataConfig& config, const std::filesystem::path& path, Faults& faults);

/// Reads a part's images and labels, each checked against the description.
ImageSet load_part(const DataConfig& config, const DatasetInfo& info, const DatasetPart& part, Faults& faults);

/// Whether config.val is a share of the training part ("10%"), and how many of `count` samples that is.
bool holds_out(const DataConfig& config);
int64_t num_held_out(const std::string& percent, int64_t count);

}  // namespace mgtrain
