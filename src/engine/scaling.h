// How much faster the devices of a run are together than one of them alone, estimated while it trains. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "observe/observer.h"

namespace mgtrain {

/// One device would run the forwards of all replicas one after the other (their times are known), and a backward pass
/// of twice that (the gradients of inputs and of weights are one such computation each); the update is the same. The
/// estimate leaves out waiting for data, and takes a replica as fast alone as beside the others.
class ScalingEstimate {
 public:
  static constexpr int64_t kWarmUpSteps = 3, kMeasuredSteps = 10;

  explicit ScalingEstimate(int64_t devices) : devices_(devices) {}

  /// Seconds of one step. `replica_forward`: of each device that had samples; empty where it is not measured.
  void add(double forward_backward, double optimizer, std::span<const double> replica_forward);
  /// The estimate once enough steps were measured, medians of them; nothing before, nor with one device.
  [[nodiscard]] std::optional<ScalingReport> report() const;

 private:
  int64_t devices_;
  int64_t steps_ = 0;
  std::vector<double> step_seconds_, one_device_seconds_;
};

}  // namespace mgtrain
