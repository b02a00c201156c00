// What is saved: the one list of all that must survive a restart. Tensors are copied to the host between two steps;
// run.json holds the counters.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/run_record.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor_file.h"

namespace mgtrain {

struct Snapshot {
  RunRecord record;
  NamedTensors model;      // canonical names
  NamedTensors optimizer;  // Optimizer::state()
};

/// The files of a checkpoint folder (without manifest), for CheckpointStore::commit. The snapshot must outlive them;
/// each tensor is copied to the host when its file is written, one at a time.
std::vector<CheckpointFile> checkpoint_files(const Snapshot& snapshot);

/// What checkpoint_files() wrote, on the CPU. Throw CheckpointError. The folder is taken to be verified.
NamedTensors read_model(FileSystem& files, const std::filesystem::path& checkpoint);
NamedTensors read_optimizer_state(FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace mgtrain
