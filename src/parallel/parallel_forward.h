// One pass of a batch through all replicas by torch::nn::parallel. Which file implements parallel_forward is chosen by
// CMake: data_parallel_cuda.cpp where LibTorch's CUDA half is linked, else data_parallel_cpu.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/replicated_module.h"

namespace mgtrain {

/// images [N, C, H, W] on the host -> logits [N, K] on devices[0], in sample order. `shares`: sizes of the chunks, none
/// zero, one for each of the first devices. Call between begin_forward(shares) and end_forward().
at::Tensor parallel_forward(const std::shared_ptr<ReplicatedModule>& module, const at::Tensor& images,
                            const std::vector<at::Device>& devices, const std::vector<int64_t>& shares);

/// The same for devices of any kind: torch's replicate and parallel_apply between a scatter and a gather of ours, as
/// torch's own take nothing but CUDA devices.
at::Tensor portable_parallel_forward(const std::shared_ptr<ReplicatedModule>& module, const at::Tensor& images,
                                     const std::vector<at::Device>& devices, const std::vector<int64_t>& shares);

}  // namespace mgtrain
