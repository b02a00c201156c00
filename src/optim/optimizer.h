// SGD, Adam and AdamW through ATen's fused kernels, equal to torch.optim of the same version. One object updates
// the parameters of one device; not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"

namespace mgtrain {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class Optimizer {
 public:
  /// `parameters`: canonical names and leaf tensors of one device and dtype that require a gradient.
  Optimizer(const OptimConfig& config, NamedTensors parameters);
  ~Optimizer();

  /// One update with the gradients in .grad (an undefined one is a bug: throws std::logic_error). `found_inf`:
  /// undefined or a float32 scalar [1]-element tensor on the device; where it is not 0, no weight and no state moves.
  void step(double learning_rate, const at::Tensor& found_inf);

  /// State in canonical names: "momentum.<parameter>", or "exp_avg.<p>", "exp_avg_sq.<p>", and "step" (float32 [1]).
  /// The tensors are the live ones. Includes what has not been created yet, as zeros.
  [[nodiscard]] NamedTensors state();
  /// Copies values in; throws CheckpointError naming missing, extra or misshapen tensors (up to 10).
  void load_state(const NamedTensors& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mgtrain
