// The module that torch::nn::parallel replicates: clone(device) hands out persistent replicas, one a position in the
// device list (a device may stand there twice), refreshed by at most one copy when the primary's weights moved.
// Replica 0 is a second set of tensors over the primary's own storage, so that its BatchNorm statistics are the
// primary's. Calls come from the training thread; forward() of replicas from the workers of parallel_apply.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <c10/core/Stream.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/resnet.h"
#include "parallel/flat_parameters.h"
#include "parallel/strategy.h"

namespace mgtrain {

/// What keeping the replicas equal to the primary has cost since construction.
struct ReplicationCost {
  int64_t copies = 0, bytes = 0;
  double seconds = 0;  // on the host; a copy between GPUs is only launched in it
};

class ReplicatedModule final : public torch::nn::Module {
 public:
  /// Moves `model` to devices[0] and builds the replicas, all there and then; no random number is drawn (the default
  /// CPU generator is as before even if make_twin draws).
  ReplicatedModule(std::shared_ptr<Classifier> model, const ClassifierFactory& make_twin,
                   std::vector<at::Device> devices, std::vector<std::string> device_labels);

  /// Before each pass over a batch cut into `shares` (one a replica that takes part, in order): captures the calling
  /// thread's grad mode, autocast, streams and observers for the workers.
  void begin_forward(const std::vector<int64_t>& shares);
  /// After it: lets go of what was captured.
  void end_forward();

  /// The k-th call after begin_forward returns replica k, up to date, in the primary's train or eval modes.
  [[nodiscard]] std::shared_ptr<torch::nn::Module> clone(
      const std::optional<at::Device>& device = std::nullopt) const override;

  /// images [n, C, H, W] on the replica's device -> logits [n, K] there. Failures become DeviceError or
  /// OutOfMemoryError with the replica's label and share.
  at::Tensor forward(at::Tensor images);

  /// What training changes (weights, statistics) moved: replicas are refreshed at their next use. In-place operations
  /// on trainable parameters are noticed without this call, but ATen's fused optimizers raise no version.
  void weights_changed() { ++generation_; }
  /// Anything may have been written, frozen parameters included.
  void state_changed() { whole_generation_ = ++generation_; }

  [[nodiscard]] const FlatParameters& flat() const { return flat_; }
  [[nodiscard]] const ReplicationCost& cost() const { return *cost_; }
  /// Seconds each replica has spent in forward() since the last call.
  std::vector<double> take_forward_seconds();

 private:
  struct Pass {
    at::ThreadLocalState thread_state;
    std::vector<std::optional<c10::Stream>> streams;
    std::vector<int64_t> shares;
    int64_t batch = 0;
  };

  /// A replica.
  ReplicatedModule(std::shared_ptr<Classifier> twin, const ReplicatedModule& primary, size_t position);
  void register_trainable();
  void refresh_from(const ReplicatedModule& primary);

  std::shared_ptr<Classifier> model_;  // not registered: torch::nn::parallel shall see the trainable parameters only
  std::vector<std::shared_ptr<torch::nn::Module>> parts_;  // of model_, in the same order everywhere
  at::Device device_;
  std::string label_;
  size_t position_ = 0;
  FlatParameters flat_;

  // Of the primary.
  std::vector<at::Device> devices_;
  std::vector<std::shared_ptr<ReplicatedModule>> replicas_;
  mutable size_t next_ = 0;
  uint64_t parameter_versions_ = 0;
  std::shared_ptr<ReplicationCost> cost_;

  // Both: the state of the weights that the replica holds, and that the primary has.
  uint64_t generation_ = 0, whole_generation_ = 0;

  // Of a replica.
  std::shared_ptr<std::optional<Pass>> pass_;  // the primary's
  double forward_seconds_ = 0;
};

}  // namespace mgtrain
