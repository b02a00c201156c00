// Device values as LibTorch's devices.
#pragma once

#include <c10/core/Device.h>

#include "devices/device.h"

namespace mgtrain {

inline c10::Device to_torch(const Device& device) {
  if (device.kind == DeviceKind::kCpu) return c10::Device(c10::kCPU);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index));
}

}  // namespace mgtrain
