// run.json of a checkpoint: the counters and descriptions that must survive a restart, all but the tensors. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace mgtrain {

/// Counters and values that must survive; all of a Trainer's state that is not a tensor.
struct TrainState {
  int64_t step = 0;           // finished optimizer updates
  int64_t epoch = 0;          // epoch the next update belongs to
  int64_t sample_offset = 0;  // samples of that epoch already consumed
  int64_t samples_seen = 0;
  std::optional<double> best_value;  // of checkpoint.best
  int64_t best_step = -1;
  int64_t evals_without_improvement = 0;
  int64_t last_eval_step = -1;       // an evaluation due at `step` and cut off is made up for on resume
  double loss_sum_since_report = 0;  // StepReport accumulation position
  int64_t top1_since_report = 0, samples_since_report = 0;
  double elapsed_seconds = 0;  // over all parts of the run
  bool finished = false;
  friend bool operator==(const TrainState&, const TrainState&) = default;
};

struct RunRecord {
  TrainState state;
  std::string config_toml;  // effective configuration
  std::string model_json;   // name, width, stem, in_channels, image size, classes
  std::vector<std::string> class_names;
  std::string dataset_fingerprint;
  std::string dataset_json;  // shape, normalisation: what eval and predict need
  std::string mgtrain_version, torch_version;
  int64_t total_steps = 0, steps_per_epoch = 0;
  std::map<std::string, uint64_t> file_lengths;  // metrics.jsonl, events..., samples.txt: cut back to these
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

inline constexpr char kRunRecordName[] = "run.json";

/// The text of run.json; floating-point numbers come back bit for bit.
std::string render_run_record(const RunRecord& record);
/// Throws CheckpointError naming `source` and the field.
RunRecord parse_run_record(std::string_view text, const std::string& source);
/// run.json of a checkpoint folder. Throws CheckpointError.
RunRecord read_run_record(FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace mgtrain
