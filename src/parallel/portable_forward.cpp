#include <torch/nn/parallel/data_parallel.h>
#include <torch/types.h>

#include "parallel/parallel_forward.h"

namespace mgtrain {

at::Tensor portable_parallel_forward(const std::shared_ptr<ReplicatedModule>& module, const at::Tensor& images,
                                     const std::vector<at::Device>& devices, const std::vector<int64_t>& shares) {
  const std::vector<at::Device> used(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(shares.size()));
  std::vector<at::Tensor> chunks = images.split_with_sizes(shares);
  for (size_t i = 0; i < chunks.size(); ++i) chunks[i] = chunks[i].to(used[i], /*non_blocking=*/true);
  auto replicas = torch::nn::parallel::replicate(module, used);
  std::vector<at::Tensor> logits = torch::nn::parallel::parallel_apply(replicas, chunks, used);
  for (at::Tensor& part : logits) part = part.to(used.front());
  return torch::cat(logits);
}

}  // namespace mgtrain
