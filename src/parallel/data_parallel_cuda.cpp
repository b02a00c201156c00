#include <torch/nn/parallel/data_parallel.h>

#include <algorithm>

#include "parallel/parallel_forward.h"

namespace mgtrain {

at::Tensor parallel_forward(const std::shared_ptr<ReplicatedModule>& module, const at::Tensor& images,
                            const std::vector<at::Device>& devices, const std::vector<int64_t>& shares) {
  namespace parallel = torch::nn::parallel;
  if (!std::all_of(devices.begin(), devices.end(), [](const at::Device& device) { return device.is_cuda(); })) {
    return portable_parallel_forward(module, images, devices, shares);
  }
  const bool even = shares.size() == devices.size() && shares.front() == shares.back();
  if (even && devices.size() > 1) return parallel::data_parallel(module, images, devices, devices.front());

  // data_parallel cuts by chunk(), 5 samples on 4 devices into 2, 2, 1, and takes no sizes; its four parts do.
  const std::vector<at::Device> used(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(shares.size()));
  const auto chunks = torch::autograd::Scatter(used, shares).apply({images});
  auto replicas = parallel::replicate(module, used);
  const auto logits = parallel::parallel_apply(replicas, std::vector<at::Tensor>(chunks.begin(), chunks.end()), used);
  return torch::autograd::Gather(devices.front())
      .apply(torch::autograd::variable_list(logits.begin(), logits.end()))
      .front();
}

}  // namespace mgtrain
