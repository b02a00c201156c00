// A strategy of ranks: each is one object with one device, and all make the same calls in the same order. Gradients are
// added over the ranks during backward, each updates its own weights, and these stay equal bit for bit.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "parallel/flat_parameters.h"
#include "parallel/gradient_reducer.h"
#include "parallel/strategy.h"

namespace mgtrain {

struct MeshOptions {
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // of the ranks that share a batch
  bool sync_batch_norm = false;                  // in training, over the samples of all of them
  bool bfloat16_gradients = false;
};

class MeshStrategy final : public Strategy {
 public:
  /// `options`: this rank's one device. Collective: gives all ranks the first one's weights and statistics; throws
  /// DeviceError on all of them if their models differ in a name, type or shape.
  MeshStrategy(std::shared_ptr<Classifier> model, StrategyOptions options, MeshOptions mesh);
  ~MeshStrategy() override;

  StepSums forward_backward(std::span<const Batch> micro_batches, int64_t global_count) override;
  EvalSums evaluate(const Batch& batch) override;
  NamedTensors trainable_parameters() override;
  NamedTensors full_state() override;
  /// Collective: what the first rank has loaded becomes the state of all.
  void state_changed() override;
  [[nodiscard]] at::Device primary() const override { return options_.devices.front(); }
  [[nodiscard]] StepTimes last_times() const override { return times_; }

  [[nodiscard]] RankPlace place() const override { return {mesh_.group->getRank(), mesh_.group->getSize()}; }
  at::Tensor sum_over_ranks(at::Tensor values) override;
  void take_from_first_rank(const NamedTensors& tensors) override;
  void prepare_evaluation() override;

 private:
  StepSums forward_backward(const Batch& batch, int64_t global_count);
  StepSums join_without_samples();
  void check_same_model() const;

  std::shared_ptr<Classifier> model_;
  StrategyOptions options_;
  MeshOptions mesh_;
  FlatParameters flat_;
  std::unique_ptr<GradientReducer> reducer_;
  StepTimes times_;
};

}  // namespace mgtrain
