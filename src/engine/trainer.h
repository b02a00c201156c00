// The training loop: fetch, forward and backward, clip, update, report; and at step boundaries what is due: report,
// evaluation, checkpoint, the end. It knows no device, file or file format. With several ranks each runs this loop, in
// step: what one of them alone can know - a signal, the time - all learn with the sums of a step, and act on it
// together a step later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/every.h"
#include "base/exit_code.h"
#include "checkpoint/run_record.h"
#include "config/run_config.h"
#include "engine/checkpointer.h"
#include "engine/device_scalars.h"
#include "engine/evaluator.h"
#include "engine/requests.h"
#include "engine/scaling.h"
#include "engine/train_feed.h"
#include "observe/observer.h"
#include "observe/sample_trace.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "parallel/strategy.h"

namespace mgtrain {

struct TrainerSettings {
  int64_t total_steps = 0, steps_per_epoch = 0, num_devices = 1;
  TrainConfig train;
  double clip_grad = 0;
  CheckpointConfig checkpoint;
  Every log_every;
};

/// What the loop drives; all outlive it.
struct TrainerParts {
  Strategy& strategy;
  Optimizer& optimizer;
  const LrSchedule& schedule;
  TrainFeed& feed;
  Evaluator* evaluator = nullptr;        // none: the data have no part for it
  Checkpointer* checkpointer = nullptr;  // none: another rank writes
  Observer& observer;
  SampleTrace* trace = nullptr;
  const Clock& clock;
};

/// How training ended, short of an error.
struct TrainOutcome {
  std::string reason;  // "done", "time limit", "early stop", "SIGINT", "SIGTERM"
  ExitCode exit_code = ExitCode::kDone;
};

class Trainer {
 public:
  /// `state`: that of a new run, or what a checkpoint holds.
  Trainer(TrainerSettings settings, TrainerParts parts, TrainState state);

  /// Trains to the end, or until a limit or signal ends it; a checkpoint of the last step is committed then. A
  /// non-finite loss or gradient moves no weight and throws NonFiniteError at the next step at the latest, before
  /// anything is evaluated or saved.
  TrainOutcome run();

  [[nodiscard]] const TrainState& state() const { return state_; }
  [[nodiscard]] const std::optional<EvalReport>& last_eval() const { return last_eval_; }
  [[nodiscard]] const std::optional<EvalReport>& best_eval() const { return best_eval_; }
  [[nodiscard]] const std::optional<ScalingReport>& scaling() const { return scaling_report_; }
  /// Samples a second while training, without evaluations and checkpoints.
  [[nodiscard]] double mean_images_per_second() const;

 private:
  /// What is to be done at a step boundary.
  struct Due {
    bool report = false, evaluate = false, save = false;
  };

  TrainOutcome train();
  [[nodiscard]] bool alone() const { return parts_.strategy.place().ranks == 1; }
  void train_step();
  /// Clip, optimizer, and the sums on their way to the host.
  void update(const StepSums& sums, int64_t count);
  void end_epoch();
  void settle();
  std::vector<double> read_pending();
  [[nodiscard]] Due what_is_due();
  std::optional<TrainOutcome> step_boundary(Due due);
  [[nodiscard]] bool agreed_due(Schedule& schedule, const Every& every, bool Requests::*request);
  [[nodiscard]] Requests own_requests() const;
  [[nodiscard]] std::optional<TrainOutcome> stop_request() const;
  [[nodiscard]] bool time_is_up() const;
  void report_step();
  /// Whether it came to its end; a signal breaks it off.
  bool evaluate();
  void show_progress(const char* phase);
  void estimate_scaling(double forward_backward, double optimizer);
  void update_elapsed();

  TrainerSettings settings_;
  TrainerParts parts_;
  TrainState state_;
  std::vector<at::Tensor> parameters_;
  Schedule report_due_, eval_due_, save_due_;

  /// A step whose sums the host has not read yet.
  struct Pending {
    int64_t step = 0, epoch = 0, count = 0;
    DeviceScalars scalars;  // loss sum, top-1, gradient norm, whether any is not finite; of several ranks: requests
  };
  std::optional<Pending> pending_;
  Requests timed_;             // what a schedule in minutes has asked for on the first rank
  Requests settled_, agreed_;  // of all ranks, as last read; as of the step before, the same on all
  double last_loss_ = 0, last_grad_norm_ = 0;
  bool has_loss_ = false;
  int64_t last_epoch_ = 0;  // of the last step

  double started_, elapsed_before_;
  double data_wait_ = 0, forward_backward_ = 0, update_ = 0, saving_ = 0;  // seconds since the last report
  double train_seconds_ = 0, reported_seconds_ = 0;                        // spent in steps
  int64_t samples_here_ = 0, steps_here_ = 0;                              // trained by this process
  ScalingEstimate scaling_;
  std::optional<ScalingReport> scaling_report_;
  std::optional<EvalReport> last_eval_, best_eval_;
};

}  // namespace mgtrain
