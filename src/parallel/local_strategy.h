// What strategies share in which the training thread drives all devices itself: loss and gradients over micro-batches,
// evaluation, and the state. A strategy of this kind only says how logits come about.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/device_errors.h"
#include "parallel/strategy.h"

namespace mgtrain {

/// How messages name the devices, "cuda:0, cuda:1"; one of them.
std::string device_labels(const StrategyOptions& options);
std::string device_label(const StrategyOptions& options, size_t position);
/// All of them at work on a batch of `count` samples (0: on none), as messages tell it.
DeviceWork work_of_all(const StrategyOptions& options, std::string phase, int64_t count);

class LocalStrategy : public Strategy {
 public:
  StepSums forward_backward(std::span<const Batch> micro_batches, int64_t global_count) final;
  EvalSums evaluate(const Batch& batch) final;
  NamedTensors trainable_parameters() final;
  NamedTensors full_state() final;
  void state_changed() override {}
  [[nodiscard]] at::Device primary() const final { return options_.devices.front(); }
  [[nodiscard]] StepTimes last_times() const final { return times_; }

 protected:
  /// `threads`: intra-op threads of the training thread during a step.
  LocalStrategy(std::shared_ptr<Classifier> model, StrategyOptions options, int threads);

  /// Logits of the batch on the primary device in sample order, in the caller's grad mode.
  virtual at::Tensor logits(const at::Tensor& images) = 0;
  /// Trainable parameters and statistics may have moved: said at the start and at the end of each step.
  virtual void weights_changed() {}
  /// Seconds spent in each replica's forward, and in replication, since the last call. CPU devices only.
  virtual void take_times(StepTimes& times) = 0;

  [[nodiscard]] const StrategyOptions& options() const { return options_; }
  [[nodiscard]] const std::shared_ptr<Classifier>& model() const { return model_; }

 private:
  at::Tensor forward(const Batch& batch);
  StepSums forward_backward(const Batch& batch, int64_t global_count);
  std::shared_ptr<Classifier> model_;
  StrategyOptions options_;
  int threads_;
  StepTimes times_;
};

}  // namespace mgtrain
