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
/// is waited for; send never waits. Tensors are contiguous (channels-last and strided ones are refused) and of any
/// device that can copy from the others'; on an accelerator the current device must be the tensors'. What does not fit
/// is CallMismatch on all ranks, but on one in send and recv.
class InProcessBackend final : public c10d::Backend {
 public:
  InProcessBackend(std::shared_ptr<InProcessGroup> group, int rank, int size);

  const std::string getBackendName() const override { return "in_process"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
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
  // `refused`: why this rank cannot take part, known already; empty: not known.
  void gather_all(const char* operation, const std::vector<std::vector<at::Tensor>>& outputs,
                  const std::vector<at::Tensor>& inputs, std::string refused, std::chrono::milliseconds timeout);
  void reduce_and_scatter(const char* operation, const std::vector<at::Tensor>& outputs,
                          const std::vector<std::vector<at::Tensor>>& inputs, const c10d::ReduceOp& reduce_op,
                          std::string refused, std::chrono::milliseconds timeout);
  [[nodiscard]] std::string split_evenly(const at::Tensor& whole, int64_t count, std::vector<at::Tensor>& parts) const;
  [[nodiscard]] Mailbox::Lane lane(const char* call, const std::vector<at::Tensor>& tensors, int from, int to,
                                   int tag) const;

  std::shared_ptr<InProcessGroup> group_;
};

}  // namespace mgtrain
