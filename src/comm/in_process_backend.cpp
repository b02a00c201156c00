#include "comm/in_process_backend.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "comm/describe_tensors.h"

namespace mgtrain {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

c10::intrusive_ptr<c10::ivalue::Future> completed_future(const Tensors& result) {
  std::vector<c10::Device> devices;
  if (!result.empty() && !result.front().is_cpu()) devices.push_back(result.front().device());
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
  future->markCompleted(c10::IValue(result));
  return future;
}

/// An operation that is over when it returns.
class Done final : public c10d::Work {
 public:
  Done(Tensors result, c10d::OpType type) : Work(-1, type), result_(std::move(result)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(Milliseconds) override { return true; }
  Tensors result() override { return result_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return completed_future(result_); }

 private:
  Tensors result_;
};

/// A message that is booked, and copied when it is waited for.
class Receiving final : public c10d::Work {
 public:
  Receiving(std::shared_ptr<InProcessGroup> group, Mailbox::Receipt receipt, at::Tensor into)
      : Work(-1, c10d::OpType::RECV), group_(std::move(group)), receipt_(receipt), into_(std::move(into)) {}
  bool isCompleted() override { return taken_ || group_->mailbox.has_come(receipt_); }
  bool isSuccess() const override { return taken_; }
  int sourceRank() const override { return receipt_.lane.from; }
  bool wait(Milliseconds timeout) override {
    if (taken_) return true;
    const auto sent = std::static_pointer_cast<at::Tensor>(group_->mailbox.take(receipt_, timeout));
    if (sent->sizes() != into_.sizes() || sent->scalar_type() != into_.scalar_type()) {
      const auto& ranks = group_->meeting.ranks();
      throw CallMismatch(c10::str("recv on group ", group_->meeting.name(), ": rank ",
                                  ranks[static_cast<size_t>(receipt_.lane.from)], " sent ", sent->scalar_type(), " ",
                                  sent->sizes(), ", rank ", ranks[static_cast<size_t>(receipt_.lane.to)], " expects ",
                                  into_.scalar_type(), " ", into_.sizes()));
    }
    const at::NoGradGuard no_gradients;
    into_.copy_(*sent);
    taken_ = true;
    return true;
  }
  Tensors result() override { return {into_}; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    return completed_future({into_});
  }

 private:
  std::shared_ptr<InProcessGroup> group_;
  Mailbox::Receipt receipt_;
  at::Tensor into_;
  bool taken_ = false;
};

WorkPtr done(Tensors result, c10d::OpType type) { return c10::make_intrusive<Done>(std::move(result), type); }

/// c10d's "no time-out given" is the world's.
Milliseconds limit(Milliseconds given) { return given.count() > 0 ? given : Milliseconds(0); }

struct Slice {
  int64_t first, count;
};
Slice slice_of(int64_t elements, int rank, int size) {
  const int64_t first = elements * rank / size;
  return {first, elements * (rank + 1) / size - first};
}

at::Tensor flat(const at::Tensor& tensor) { return tensor.view({-1}); }

}  // namespace

InProcessBackend::InProcessBackend(std::shared_ptr<InProcessGroup> group, int rank, int size)
    : Backend(rank, size), group_(std::move(group)) {}

WorkPtr InProcessBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::NoGradGuard no_gradients;
  const std::optional<Reduction> reduction = reduction_of(options.reduceOp);
  CallDescription call = describe_reduction("all_reduce", reduction, tensors);
  const auto brought = std::make_shared<Tensors>(tensors);
  const bool on_cpu = tensors.empty() || tensors.front().is_cpu();
  {  // This rank's slice is nobody else's: on the CPU its sum goes straight to all ranks' tensors.
    auto meeting = group_->meeting.meet(rank_, call, brought, limit(options.timeout));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Slice slice = slice_of(tensors[i].numel(), rank_, size_);
      Tensors parts;
      for (int rank = 0; rank < size_; ++rank) {
        parts.push_back(flat(meeting.brought_by<Tensors>(rank)[i]).narrow(0, slice.first, slice.count));
      }
      reduce_parts(*reduction, parts, on_cpu ? parts : Tensors{parts[static_cast<size_t>(rank_)]});
    }
    meeting.leave();
  }
  if (size_ > 1 && !on_cpu) {  // Each device fetches the others' slices: nobody writes to another one's memory.
    call.operation += ", gathering";
    auto meeting = group_->meeting.meet(rank_, call, brought, limit(options.timeout));
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (int rank = 0; rank < size_; ++rank) {
        if (rank == rank_) continue;
        const Slice slice = slice_of(tensors[i].numel(), rank, size_);
        flat(tensors[i])
            .narrow(0, slice.first, slice.count)
            .copy_(flat(meeting.brought_by<Tensors>(rank)[i]).narrow(0, slice.first, slice.count));
      }
    }
    meeting.leave();
  }
  return done(tensors, c10d::OpType::ALLREDUCE);
}

WorkPtr InProcessBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return allreduce(tensors, options);
}

WorkPtr InProcessBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::NoGradGuard no_gradients;
  const auto root = static_cast<int>(options.rootRank);
  CallDescription call = describe("broadcast", tensors, c10::str("rank ", root));
  if (root < 0 || root >= size_) call.refusal = c10::str("there is no rank ", root, " in a group of ", size_);
  auto meeting =
      group_->meeting.meet(rank_, std::move(call), std::make_shared<Tensors>(tensors), limit(options.timeout));
  if (rank_ != root) {
    const Tensors& from = meeting.brought_by<Tensors>(root);
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(from[i]);
  }
  meeting.leave();
  return done(tensors, c10d::OpType::BROADCAST);
}

void InProcessBackend::gather_all(const char* operation, const std::vector<Tensors>& outputs, const Tensors& inputs,
                                  std::string refused, Milliseconds timeout) {
  const at::NoGradGuard no_gradients;
  CallDescription call = describe(operation, inputs);
  if (outputs.size() != inputs.size()) {
    refused = c10::str(outputs.size(), " lists of output tensors for ", inputs.size(), " inputs");
  }
  for (size_t i = 0; i < inputs.size() && refused.empty(); ++i) {
    refused = own_refusal("output", outputs[i], Tensors(static_cast<size_t>(size_), inputs[i]));
  }
  if (call.refusal.empty()) call.refusal = std::move(refused);
  auto meeting = group_->meeting.meet(rank_, call, std::make_shared<Tensors>(inputs), limit(timeout));
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int rank = 0; rank < size_; ++rank) {
      flat(outputs[i][static_cast<size_t>(rank)]).copy_(flat(meeting.brought_by<Tensors>(rank)[i]));
    }
  }
  meeting.leave();
}

WorkPtr InProcessBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  gather_all("all_gather", outputs, inputs, {}, options.timeout);
  return done(outputs.empty() ? Tensors() : outputs.front(), c10d::OpType::ALLGATHER);
}

WorkPtr InProcessBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  std::vector<Tensors> outputs(1);
  const std::string refused = split_evenly(output, input.numel(), outputs[0]);
  gather_all("all_gather_base", outputs, {input}, refused, options.timeout);
  return done({output}, c10d::OpType::_ALLGATHER_BASE);
}

void InProcessBackend::reduce_and_scatter(const char* operation, const Tensors& outputs,
                                          const std::vector<Tensors>& inputs, const c10d::ReduceOp& reduce_op,
                                          std::string refused, Milliseconds timeout) {
  const at::NoGradGuard no_gradients;
  const std::optional<Reduction> reduction = reduction_of(reduce_op);
  Tensors brought, own;  // own: the inputs that this rank's outputs are made of
  if (outputs.size() != inputs.size()) {
    refused = c10::str(outputs.size(), " output tensors for ", inputs.size(), " lists of inputs");
  }
  for (const Tensors& list : inputs) {
    if (list.size() != static_cast<size_t>(size_)) {
      refused = c10::str("a list of ", list.size(), " input tensors where one a rank is needed");
      break;
    }
    brought.insert(brought.end(), list.begin(), list.end());
    own.push_back(list[static_cast<size_t>(rank_)]);
  }
  CallDescription call = describe_reduction(operation, reduction, brought);
  if (refused.empty()) refused = own_refusal("output", outputs, own);
  if (call.refusal.empty()) call.refusal = std::move(refused);
  auto meeting = group_->meeting.meet(rank_, call, std::make_shared<Tensors>(brought), limit(timeout));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensors parts;
    for (int rank = 0; rank < size_; ++rank) {
      const auto& theirs = meeting.brought_by<Tensors>(rank);
      parts.push_back(flat(theirs[i * static_cast<size_t>(size_) + static_cast<size_t>(rank_)]));
    }
    reduce_parts(*reduction, parts, {flat(outputs[i])});
  }
  meeting.leave();
}

WorkPtr InProcessBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  reduce_and_scatter("reduce_scatter", outputs, inputs, options.reduceOp, {}, options.timeout);
  return done(outputs, c10d::OpType::REDUCE_SCATTER);
}

WorkPtr InProcessBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  std::vector<Tensors> inputs(1);
  const std::string refused = split_evenly(input, output.numel(), inputs[0]);
  reduce_and_scatter("reduce_scatter_base", {output}, inputs, options.reduceOp, refused, options.timeout);
  return done({output}, c10d::OpType::_REDUCE_SCATTER_BASE);
}

/// Cuts `whole` into a tensor of `count` elements a rank; says why it cannot.
std::string InProcessBackend::split_evenly(const at::Tensor& whole, int64_t count, Tensors& parts) const {
  if (whole.layout() != at::kStrided || !whole.is_contiguous()) return refusal({whole});
  if (whole.numel() != count * size_) {
    return c10::str("a tensor of ", whole.numel(), " elements for ", size_, " ranks of ", count);
  }
  for (int rank = 0; rank < size_; ++rank) parts.push_back(flat(whole).narrow(0, rank * count, count));
  return {};
}

Mailbox::Lane InProcessBackend::lane(const char* call, const Tensors& tensors, int from, int to, int tag) const {
  const int peer = from == rank_ ? to : from;
  std::string why = tensors.size() == 1 ? refusal(tensors) : c10::str(tensors.size(), " tensors instead of one");
  if (peer < 0 || peer >= size_) why = c10::str("there is no rank ", peer, " in a group of ", size_);
  if (!why.empty()) throw CallMismatch(c10::str(call, " on group ", group_->meeting.name(), ": ", why));
  return {from, to, tag};
}

WorkPtr InProcessBackend::send(Tensors& tensors, int to, int tag) {
  // A copy: the sender may write to its tensor at once.
  const Mailbox::Lane way = lane("send", tensors, rank_, to, tag);
  group_->mailbox.send(way, std::make_shared<at::Tensor>(tensors[0].detach().clone()));
  return done(tensors, c10d::OpType::SEND);
}

WorkPtr InProcessBackend::recv(Tensors& tensors, int from, int tag) {
  const Mailbox::Lane way = lane("recv", tensors, from, rank_, tag);
  return c10::make_intrusive<Receiving>(group_, group_->mailbox.expect(way), tensors[0]);
}

WorkPtr InProcessBackend::barrier(const c10d::BarrierOptions& options) {
  group_->meeting.meet(rank_, {.operation = "barrier"}, nullptr, limit(options.timeout)).leave();
  return done({}, c10d::OpType::BARRIER);
}

}  // namespace mgtrain
