// What is saved: the one list of all that must survive a restart. Tensors are copied to the host between two steps;
// run.json holds the counters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/store.h"
#include "optim/optimizer.h"

namespace mgtrain {

/// Counters and values that must survive; all of a Trainer's state that is not a tensor.
struct TrainState {
  int64_t step = 0;                  // finished optimizer updates
  int64_t epoch = 0;                 // epoch the next update belongs to
  int64_t sample_offset = 0;         // samples of that epoch already consumed
  int64_t samples_seen = 0;
  std::optional<double> best_value;  // of checkpoint.best
  int64_t best_step = -1;
  int64_t evals_without_improvement = 0;
  double loss_sum_since_report = 0;  // StepReport accumulation position
  int64_t top1_since_report = 0, samples_since_report = 0;
  double elapsed_seconds = 0;        // over all parts of the run
  bool finished = false;
  friend bool operator==(const TrainState&, const TrainState&) = default;
};

struct RunRecord {
  TrainState state;
  std::string config_toml;                      // effective configuration
  std::string model_json;                       // name, width, stem, in_channels, image size, classes
  std::vector<std::string> class_names;
  std::string dataset_fingerprint;
  std::string dataset_json;                     // shape, normalisation: what eval and predict need
  std::string mgtrain_version, torch_version;
  int64_t total_steps = 0, steps_per_epoch = 0;
  std::map<std::string, uint64_t> file_lengths;   // metrics.jsonl, events..., log.txt, samples.txt: cut back to these
};

struct Snapshot {
  RunRecord record;
  NamedTensors model;       // canonical names
  NamedTensors optimizer;
};

/// The files of a checkpoint folder (without manifest), for CheckpointStore::commit. The snapshot must outlive them.
std::vector<CheckpointFile> checkpoint_files(const Snapshot& snapshot);

/// A safetensors file of tensors: any device, any strides; written contiguous.
void write_safetensors(WritableFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);
/// All tensors of a file, on the CPU. Throws CheckpointError.
NamedTensors read_safetensors(FileSystem& files, const std::filesystem::path& file);

RunRecord read_run_record(FileSystem& files, const std::filesystem::path& checkpoint);

/// Copies `from` into `into` (same names, shapes, dtypes; a float conversion F32<->F64 is refused). Throws
/// CheckpointError with counts and up to 10 names of missing, extra and misshapen tensors.
void load_strictly(const NamedTensors& from, const NamedTensors& into, const std::string& source);

}  // namespace mgtrain
