#include "parallel/parallel_forward.h"

namespace mgtrain {

at::Tensor parallel_forward(const std::shared_ptr<ReplicatedModule>& module, const at::Tensor& images,
                            const std::vector<at::Device>& devices, const std::vector<int64_t>& shares) {
  return portable_parallel_forward(module, images, devices, shares);
}

}  // namespace mgtrain
