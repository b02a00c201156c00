// How the devices of a run agree on one step. A strategy owns replicas, scatter and gather; it owns no logging,
// saving, schedule or NaN policy. All calls come from the training thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "model/resnet.h"
#include "optim/optimizer.h"

namespace mgtrain {

/// Sums over the samples of one step, on the primary device; nothing here waits for it.
struct StepSums {
  at::Tensor loss_sum;  // 0-dim, float64 on CPU or the model's dtype: sum of per-sample losses
  at::Tensor top1;      // 0-dim int64: samples whose largest logit is the label
};

/// Sums over one evaluation batch, on the primary device.
struct EvalSums {
  at::Tensor logits_NK;  // in the model's dtype, gathered on the primary device, in sample order
  at::Tensor labels_N;   // int64, primary device
};

/// Time a replica spent in its own forward, for the speed-up estimate. Empty where not known (GPU: not synchronised).
struct StepTimes {
  std::vector<double> replica_forward_seconds;
  double forward_seconds = 0, backward_seconds = 0, replicate_seconds = 0;
};

/// Which of the run's ranks this strategy is.
struct RankPlace {
  int64_t rank = 0, ranks = 1;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Clears the gradients it owns, then leaves the exact gradient of the mean loss over `global_count` samples in the
  /// parameters of the primary device. `micro_batches`: at least one, none empty; their counts sum to global_count.
  /// With ranks: this rank's parts of them, equally many on each, some perhaps empty; the sums are this rank's.
  virtual StepSums forward_backward(std::span<const Batch> micro_batches, int64_t global_count) = 0;
  /// Logits in evaluation mode, without gradients, in the order of the batch's samples. With ranks: of this rank's
  /// samples, after prepare_evaluation() on all.
  virtual EvalSums evaluate(const Batch& batch) = 0;
  /// Canonical names; the live tensors on the primary device. Trainable parameters only / everything saved
  /// (parameters, then buffers, in torchvision's order).
  virtual NamedTensors trainable_parameters() = 0;
  virtual NamedTensors full_state() = 0;
  /// Call after full_state's tensors were written to (load), before the next step; also if an optimizer moved weights
  /// after an evaluation and another evaluation follows without a step between.
  virtual void state_changed() = 0;

  // What ranks agree on; of one rank, nothing to do. All ranks call these in the same order.
  [[nodiscard]] virtual RankPlace place() const { return {}; }
  /// `values` [n] float64 on any device -> the sums over the ranks, the same bits on each.
  virtual at::Tensor sum_over_ranks(at::Tensor values) { return values; }
  /// Gives all ranks the first one's values, in place.
  virtual void take_from_first_rank(const NamedTensors& /*tensors*/) {}
  /// Before the first evaluate() of an evaluation: the statistics of the first rank are the run's.
  virtual void prepare_evaluation() {}

  [[nodiscard]] virtual at::Device primary() const = 0;
  [[nodiscard]] virtual StepTimes last_times() const { return {}; }
};

struct StrategyOptions {
  double label_smoothing = 0;
  std::vector<at::Device> devices;         // primary first; CPU replicas: at::kCPU repeated
  std::vector<std::string> device_labels;  // as messages name them, one a device
  int threads = 1;                         // CPU: intra-op threads of the whole process
  bool channels_last = false;
};

/// Strategy::sum_over_ranks for numbers of the host, which waits for them.
std::vector<double> sum_over_ranks(Strategy& strategy, const std::vector<double>& values);

/// The live tensors of a module by name: parameters, then buffers, in the order they were registered.
NamedTensors state_tensors(const torch::nn::Module& module);

/// Builds a model of the same structure as the one to be replicated; its values do not matter.
using ClassifierFactory = std::function<std::shared_ptr<Classifier>()>;

/// One device. Takes the model over; moves it to the device. What requires a gradient is fixed from here on.
std::unique_ptr<Strategy> make_single_device(std::shared_ptr<Classifier> model, const StrategyOptions& options);
/// torch::nn::parallel over options.devices (two or more). Takes the model over; moves it to the primary device.
std::unique_ptr<Strategy> make_data_parallel(std::shared_ptr<Classifier> model, const ClassifierFactory& make_twin,
                                             const StrategyOptions& options);
inline std::unique_ptr<Strategy> make_data_parallel(const std::shared_ptr<ResNet>& model,
                                                    const StrategyOptions& options) {
  return make_data_parallel(
      model, [spec = model->spec()] { return std::make_shared<ResNet>(spec); }, options);
}

}  // namespace mgtrain
