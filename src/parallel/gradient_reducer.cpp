#include "parallel/gradient_reducer.h"

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mgtrain {
namespace {

constexpr int64_t kFirstBucketBytes = int64_t{1} << 20, kBucketBytes = int64_t{25} << 20;  // as PyTorch's DDP has them

/// A bucket as bfloat16 on its way: half the bytes.
class BFloat16Hook final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor& buffer = bucket.getBufferRef();
    const auto sent = buffer.div(state_->getSize()).to(at::kBFloat16);
    std::vector<at::Tensor> tensors = {sent};
    const auto work = state_->allreduce(tensors);
    return work->getFuture()->then(
        [buffer, sent](c10::ivalue::Future&) {
          at::Tensor(buffer).copy_(sent);
          return c10::IValue(buffer);
        },
        c10::TensorType::get());
  }
};

std::shared_ptr<c10d::Reducer> make_reducer(const NamedTensors& named,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  std::vector<at::Tensor> parameters;
  std::unordered_map<size_t, std::string> names;
  for (const auto& [name, parameter] : named) {
    names.emplace(parameters.size(), name);
    parameters.push_back(parameter);
  }
  const std::vector<bool> none_sparse(parameters.size(), false);
  // All in one bucket at first: the order in which gradients come is seen in the first step, and buckets follow it.
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(parameters, {std::numeric_limits<size_t>::max()}, none_sparse);
  std::reverse(buckets.begin(), buckets.end());
#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 11
#error "c10d::Reducer's constructor is known from LibTorch 2.11 on; compare reducer.hpp and extend make_reducer()"
#endif
  return std::make_shared<c10d::Reducer>(
      parameters, buckets, group, none_sparse, kBucketBytes, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, names, kFirstBucketBytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, std::vector<int64_t>{kFirstBucketBytes, kBucketBytes});
}

}  // namespace

GradientReducer::GradientReducer(const NamedTensors& parameters, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                 bool as_bfloat16)
    : reducer_(make_reducer(parameters, group)), logger_(std::make_shared<c10d::Logger>(reducer_)) {
  reducer_->set_logger(logger_);
  logger_->set_construction_data_and_log("mgtrain", /*device_ids=*/{}, /*output_device=*/-1,
                                         /*broadcast_buffers=*/false,
                                         /*has_sync_bn=*/false, /*static_graph=*/false);
  if (as_bfloat16) reducer_->register_comm_hook(std::make_unique<BFloat16Hook>(group));
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::begin_step() {
  reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();
}

void GradientReducer::begin_reducing_backward() { reducer_->prepare_for_backward({}); }

}  // namespace mgtrain
