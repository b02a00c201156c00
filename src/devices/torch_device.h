// Device values as LibTorch's devices.
#pragma once

#include <c10/core/Device.h>

#include "devices/device.h"

namespace mgtrain {

inline c10::Device to_torch(const Device& device) {
  if (device.kind == DeviceKind::kCpu) return c10::Device(c10::kCPU);
  // LibTorch leaves the type PrivateUse1 to whoever registers a back end for it.
  const c10::DeviceType type = device.kind == DeviceKind::kCuda ? c10::kCUDA : c10::kPrivateUse1;
  return c10::Device(type, static_cast<c10::DeviceIndex>(device.index));
}

}  // namespace mgtrain
