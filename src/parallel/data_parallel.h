// torch::nn::parallel as a strategy: the batch is scattered over persistent replicas, the logits are gathered on the
// primary device, where loss, gradients and weights live. See docs/data-parallel.md.
#pragma once

#include <memory>
#include <vector>

#include "parallel/local_strategy.h"
#include "parallel/replicated_module.h"

namespace mgtrain {

class DataParallel final : public LocalStrategy {
 public:
  DataParallel(std::shared_ptr<Classifier> model, const ClassifierFactory& make_twin, const StrategyOptions& options);

  void state_changed() override { replicated_->state_changed(); }
  /// What keeping the replicas up to date has cost so far.
  [[nodiscard]] const ReplicationCost& replication() const { return replicated_->cost(); }

 private:
  at::Tensor logits(const at::Tensor& images) override;
  void weights_changed() override { replicated_->weights_changed(); }
  void take_times(StepTimes& times) override;

  std::shared_ptr<ReplicatedModule> replicated_;
  double replicate_seconds_ = 0;
};

}  // namespace mgtrain
