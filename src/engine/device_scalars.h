// Numbers that a device has computed, on their way to the host: the copy starts at once, the host waits for it only
// when it reads them, a step later, while the device already works on the next.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace mgtrain {

class DeviceScalars {
 public:
  /// `scalars`: tensors of one element and any dtype, on one device.
  explicit DeviceScalars(const std::vector<at::Tensor>& scalars);
  /// The numbers as float64 (exact for integers below 2^53). Waits for the copy, not for later work of the device.
  [[nodiscard]] std::vector<double> read();

 private:
  at::Tensor host_;
  std::optional<c10::Event> copied_;
};

}  // namespace mgtrain
