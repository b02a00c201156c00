#include "devices/device.h"

namespace mgtrain {

std::string Device::label() const {
  if (kind == DeviceKind::kCuda) return "cuda:" + std::to_string(index);
  if (kind == DeviceKind::kSimulated) return "sim:" + std::to_string(index);
  return index < 0 ? "cpu" : "cpu replica " + std::to_string(index);
}

}  // namespace mgtrain
