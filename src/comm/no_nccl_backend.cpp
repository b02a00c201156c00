#include "base/error.h"
#include "comm/backends.h"

namespace mgtrain {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                    std::chrono::milliseconds) {
  throw DeviceError("ranks on GPUs need NCCL, and this build has no CUDA; build with -DMGTRAIN_CUDA=ON");
}

}  // namespace mgtrain
