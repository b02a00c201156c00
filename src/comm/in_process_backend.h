// c10d's collectives between the ranks of one process, which are threads: each reads the others' tensors where they
// lie. Sums are taken in rank order, so that results repeat bit for bit; each rank takes a slice of them.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "comm/mailbox.h"
#include "comm/meeting_point.h"

namespace mgtrain {

/// What the backends of a group's ranks share.
struct InProcessGroup {
  InProcessGroup(const std::shared_ptr<CommWorld>& world, const std::string& name, const std::vector<int>& ranks)
      : meeting(world, name, ranks), mailbox(world, name, ranks) {}

  MeetingPoint meeting;
  Mailbox mailbox;
};

/// One rank's end. Every call works at once and returns when this rank's tensors are its own again, but for recv, which
/// is waited for. Tensors are dense, contiguous, and of any device that can copy from the others'; on an accelerator
/// the current device must be the tensors'. What does not fit is an error on all ranks.
class InProcessBackend final : public c10d::Backend {
 public:
  InProcessBackend(std::shared_ptr<InProcessGroup> group, int rank, int size);

  const std::string getBackendName() const override { return "in_process"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  std::shared_ptr<InProcessGroup> group_;
};

}  // namespace mgtrain
