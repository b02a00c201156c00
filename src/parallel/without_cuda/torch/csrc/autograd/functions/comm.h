// Stands in for LibTorch's header of this name where no CUDA headers are installed: torch/nn/parallel/data_parallel.h
// includes it, and its replicate and parallel_apply, which need no CUDA, can then be used. Declarations only: what
// would call these functions does not link.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace torch::autograd {

struct Scatter : public Node {
  explicit Scatter(std::vector<at::Device> devices, std::optional<std::vector<int64_t>> chunk_sizes = std::nullopt,
                   int64_t dim = 0);
  ~Scatter() override;
  variable_list apply(variable_list&& inputs) override;
};

struct Gather : public Node {
  explicit Gather(const at::Device& destination_device, int64_t dim = 0);
  ~Gather() override;
  variable_list apply(variable_list&& inputs) override;
};

}  // namespace torch::autograd
