// A batch as the strategies take it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace mgtrain {

struct Batch {
  at::Tensor images;  // [N, C, H, W] floating, on the host (pinned if the run is on GPUs), nchw or channels-last
  at::Tensor labels;  // [N] int64, on the host
  std::vector<int64_t> samples;  // [N] index of each in its data set

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(samples.size()); }
};

}  // namespace mgtrain
