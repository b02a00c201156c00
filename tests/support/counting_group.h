// A process group that counts the collectives that pass through it.
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

namespace mgtrain::test {

class CountingGroup final : public c10d::ProcessGroup {
 public:
  explicit CountingGroup(c10::intrusive_ptr<c10d::ProcessGroup> inner)
      : ProcessGroup(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    ++reductions;
    return inner_->allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    ++gathers;
    return inner_->_allgather_base(output, input, options);
  }

  std::atomic<int> gathers = 0, reductions = 0;  // backward may run on another thread

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> inner_;
};

}  // namespace mgtrain::test
