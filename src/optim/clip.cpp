#include "optim/clip.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace mgtrain {
namespace {

std::vector<at::Tensor> defined_ones(const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> defined;
  defined.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) defined.push_back(gradient);
  return defined;
}

}  // namespace

at::Tensor gradient_norm(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> defined = defined_ones(gradients);
  if (defined.empty()) return at::zeros({});
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(defined, 2)));
}

void clip_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double max_norm) {
  if (max_norm < 0) throw std::logic_error("a negative norm to clip at");
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> defined = defined_ones(gradients);
  if (defined.empty()) return;
  // A factor of 1 is multiplied with as well: to look at it first would wait for the device.
  at::_foreach_mul_(defined, (max_norm / (norm + 1e-6)).clamp_max(1.0));
}

}  // namespace mgtrain
