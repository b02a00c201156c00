#include "engine/device_scalars.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

namespace mgtrain {

DeviceScalars::DeviceScalars(const std::vector<at::Tensor>& scalars) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> numbers;
  numbers.reserve(scalars.size());
  for (const at::Tensor& scalar : scalars) numbers.push_back(scalar.detach().to(at::kDouble).reshape({}));
  const at::Tensor together = at::stack(numbers);
  const at::Device device = together.device();
  if (device.is_cpu()) {
    host_ = together;
    return;
  }
  const c10::DeviceGuard guard(device);
  host_ = at::empty(together.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  host_.copy_(together, /*non_blocking=*/true);
  copied_.emplace(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

std::vector<double> DeviceScalars::read() {
  if (copied_) copied_->synchronize();
  const double* values = host_.const_data_ptr<double>();
  return {values, values + host_.numel()};
}

}  // namespace mgtrain
