// The learning rate as a pure function of the step, in the closed form that Python's schedulers give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace mgtrain {

class LrSchedule {
 public:
  /// `base_lr`: the rate in force (after lr-scale). Steps count optimizer updates; step 0 is the first.
  LrSchedule(const OptimConfig& config, double base_lr, int64_t steps_per_epoch, int64_t total_steps);
  /// The rate of update number `step` in [0, total_steps).
  [[nodiscard]] double at(int64_t step) const;
  /// Momentum (sgd) or beta1 (adam) is not cycled.
  [[nodiscard]] int64_t total_steps() const { return total_steps_; }
  /// Whether the rates depend on total_steps (cosine, onecycle, or a warm-up given in percent).
  [[nodiscard]] bool depends_on_total() const;
  /// Updates the linear warm-up takes; the schedule starts at its position 0 after them.
  [[nodiscard]] int64_t warmup_steps() const { return warmup_steps_; }

 private:
  /// The rate `position` updates after the warm-up.
  [[nodiscard]] double scheduled(int64_t position) const;

  OptimConfig config_;
  double base_lr_;
  int64_t steps_per_epoch_, total_steps_, warmup_steps_;
  int64_t step_size_ = 0;
  std::vector<int64_t> milestones_;
};

/// The rate in force: optim.lr or the optimizer's default, scaled by lr_scale.
double learning_rate_in_force(const OptimConfig& config, int64_t batch);

}  // namespace mgtrain
