// What a run tells the world, as values. Observers return nothing and cannot change the run, so their order cannot
// matter. All calls come from the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mgtrain {

struct StartReport {
  std::string headline;
  int64_t start_step = 0, total_steps = 0, steps_per_epoch = 0, epochs = 0;
  bool resumed = false;
  std::string strategy;
  std::vector<std::string> devices;
  int64_t global_batch = 0;
  uint64_t seed = 0;
};

/// Means over the samples since the last StepReport.
struct StepReport {
  int64_t step = 0;          // finished optimizer updates
  int64_t epoch = 0;         // 0-based epoch that the step belongs to
  int64_t samples_seen = 0;  // since the run began
  double loss = 0, top1 = 0;
  double learning_rate = 0;
  std::optional<double> grad_norm;
  double images_per_second = 0;
  double data_wait_seconds = 0, forward_backward_seconds = 0, optimizer_seconds = 0, checkpoint_seconds = 0;  // sums
};

/// Sent after every step, for the progress bar only: must cost nothing.
struct Progress {
  int64_t step = 0, total_steps = 0, epoch = 0;
  std::optional<double> loss;
  double images_per_second = 0, seconds_left = 0;
  std::string phase;  // "train", "eval", "save"
};

struct EvalReport {
  int64_t step = 0, epoch = 0;
  int64_t num_samples = 0;
  double loss = 0, top1 = 0, top5 = 0;
  double seconds = 0;
  std::vector<double> class_accuracy;           // [classes]; NaN where a class has no sample
  std::vector<std::vector<int64_t>> confusion;  // [true class][predicted class]
  bool is_best = false;
};

struct CheckpointReport {
  int64_t step = 0;
  std::string path;
  uint64_t bytes = 0;
  double seconds = 0;
};

struct ScalingReport {
  int64_t devices = 0;
  double step_seconds = 0;        // median, as run
  double one_device_seconds = 0;  // estimated from the replicas' own times
  double speedup = 0;
  std::string advice;  // empty unless the speed-up is below 1
};

struct EndReport {
  std::string reason;  // "done", "time limit", "early stop", "SIGTERM", "error: ..."
  int exit_code = 0;
  int64_t step = 0, epoch = 0, samples_seen = 0;
  double seconds = 0;  // wall time of this process's part of the run
  std::optional<EvalReport> last_eval, best_eval;
  std::optional<ScalingReport> scaling;
  double mean_images_per_second = 0;
  std::vector<std::string> warnings;
  std::vector<std::string> failed_asserts;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const StartReport&) {}
  virtual void on_progress(const Progress&) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_eval(const EvalReport&) {}
  virtual void on_checkpoint(const CheckpointReport&) {}
  virtual void on_warning(const std::string& /*kind*/, const std::string& /*text*/) {}
  virtual void on_device_fallback(const std::string& /*requested*/, const std::string& /*used*/,
                                  const std::string& /*reason*/) {}
  virtual void on_scaling(const ScalingReport&) {}
  virtual void on_end(const EndReport&) {}
  /// Everything told so far is on its way to disk (called before a checkpoint commits).
  virtual void flush() {}
};

}  // namespace mgtrain
