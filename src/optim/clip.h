// Gradient norms and clipping without waiting for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mgtrain {

/// L2 norm over all gradients as one 0-dim tensor on their device. Undefined gradients count as 0.
at::Tensor gradient_norm(const std::vector<at::Tensor>& gradients);

/// Scales the gradients in place by min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double max_norm);

}  // namespace mgtrain
