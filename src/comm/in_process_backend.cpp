#include "comm/in_process_backend.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <sstream>
#include <utility>

namespace mgtrain {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

/// An operation that is over when it returns.
class Done final : public c10d::Work {
 public:
  Done(Tensors result, c10d::OpType type) : Work(-1, type), result_(std::move(result)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(Milliseconds) override { return true; }
  Tensors result() override { return result_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    std::vector<c10::Device> devices;
    if (!result_.empty() && !result_.front().is_cpu()) devices.push_back(result_.front().device());
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
    future->markCompleted(c10::IValue(result_));
    return future;
  }

 private:
  Tensors result_;
};

/// A message that is booked, and copied when it is waited for.
class Receiving final : public c10d::Work {
 public:
  Receiving(std::shared_ptr<InProcessGroup> group, Mailbox::Receipt receipt, at::Tensor into)
      : Work(-1, c10d::OpType::RECV), group_(std::move(group)), receipt_(receipt), into_(std::move(into)) {}
  bool isCompleted() override { return taken_ || group_->mailbox.has_come(receipt_); }
  bool wait(Milliseconds timeout) override {
    if (taken_) return true;
    const auto sent = std::static_pointer_cast<at::Tensor>(group_->mailbox.take(receipt_, timeout));
    if (sent->sizes() != into_.sizes() || sent->scalar_type() != into_.scalar_type()) {
      throw CallMismatch(c10::str("recv from rank ", receipt_.lane.from, ": sent ", sent->scalar_type(), " ",
                                  sent->sizes(), ", expected ", into_.scalar_type(), " ", into_.sizes()));
    }
    const at::NoGradGuard no_gradients;
    into_.copy_(*sent);
    taken_ = true;
    return true;
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

/// Why these tensors cannot be used as they are; empty: they can.
std::string refusal(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous()) return "a tensor that is not contiguous; call contiguous() first";
    if (tensor.is_cpu()) continue;
    // As a user of NCCL must have it: the kernels of this rank run on the current device.
    const at::Device current = c10::impl::VirtualGuardImpl(tensor.device().type()).getDevice();
    if (current != tensor.device()) {
      return c10::str("its current device is ", current, " and its tensor on ", tensor.device(),
                      "; set the device of a rank's thread with a c10::DeviceGuard");
    }
  }
  return {};
}

CallDescription describe(std::string operation, const Tensors& tensors, std::string root = {}) {
  CallDescription call{
      .operation = std::move(operation), .layout = "contiguous", .root = std::move(root), .refusal = refusal(tensors)};
  std::ostringstream shapes, dtypes;
  for (const at::Tensor& tensor : tensors) {
    shapes << tensor.sizes();
    dtypes << tensor.scalar_type();
  }
  call.shape = shapes.str();
  call.dtype = dtypes.str();
  if (!tensors.empty()) {
    call.device_type = c10::DeviceTypeName(tensors.front().device().type(), /*lower_case=*/true);
    if (!tensors.front().is_cpu()) call.device = tensors.front().device().str();
  }
  return call;
}

const char* name_of(const c10d::ReduceOp& reduction) {
  switch (reduction) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "average";
    case c10d::ReduceOp::MAX:
      return "maximum";
    case c10d::ReduceOp::MIN:
      return "minimum";
    default:
      return nullptr;
  }
}

/// into = into (op) other
void combine(const c10d::ReduceOp& reduction, at::Tensor& out, const at::Tensor& one, const at::Tensor& other) {
  if (reduction == c10d::ReduceOp::MAX) {
    at::maximum_out(out, one, other);
  } else if (reduction == c10d::ReduceOp::MIN) {
    at::minimum_out(out, one, other);
  } else {
    at::add_out(out, one, other);
  }
}

/// Parts in rank order, into `out`, which may be one of them.
void reduce_parts(const c10d::ReduceOp& reduction, const Tensors& parts, at::Tensor out) {
  const auto local = [&](const at::Tensor& part) {
    return part.device() == out.device() ? part : part.to(out.device());
  };
  if (parts.size() == 1) {
    if (!out.is_same(parts[0])) out.copy_(parts[0]);
  } else if (parts.size() == 2) {
    combine(reduction, out, local(parts[0]), local(parts[1]));
  } else {
    at::Tensor sum = at::empty_like(out);
    combine(reduction, sum, local(parts[0]), local(parts[1]));
    for (size_t i = 2; i < parts.size(); ++i) combine(reduction, sum, sum, local(parts[i]));
    out.copy_(sum);
  }
  if (reduction == c10d::ReduceOp::AVG) out.div_(static_cast<int64_t>(parts.size()));
}

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
  const char* name = name_of(options.reduceOp);
  CallDescription call = describe(c10::str("all_reduce(", name == nullptr ? "?" : name, ")"), tensors);
  if (name == nullptr) call.refusal = "a reduction other than sum, average, maximum and minimum";
  const auto brought = std::make_shared<Tensors>(tensors);
  {  // The sum of this rank's slice, in its own tensor: nobody else reads that slice.
    auto meeting = group_->meeting.meet(rank_, call, brought, limit(options.timeout));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Slice slice = slice_of(tensors[i].numel(), rank_, size_);
      Tensors parts;
      for (int rank = 0; rank < size_; ++rank)
        parts.push_back(flat(meeting.brought_by<Tensors>(rank)[i]).narrow(0, slice.first, slice.count));
      reduce_parts(options.reduceOp, parts, parts[static_cast<size_t>(rank_)]);
    }
    meeting.leave();
  }
  if (size_ > 1) {  // The others' slices.
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

WorkPtr InProcessBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::NoGradGuard no_gradients;
  const auto root = static_cast<int>(options.rootRank);
  auto meeting = group_->meeting.meet(rank_, describe("broadcast", tensors, c10::str("rank ", root)),
                                      std::make_shared<Tensors>(tensors), limit(options.timeout));
  if (rank_ != root) {
    const Tensors& from = meeting.brought_by<Tensors>(root);
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(from[i]);
  }
  meeting.leave();
  return done(tensors, c10d::OpType::BROADCAST);
}

WorkPtr InProcessBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  const at::NoGradGuard no_gradients;
  auto meeting = group_->meeting.meet(rank_, describe("all_gather", inputs), std::make_shared<Tensors>(inputs),
                                      limit(options.timeout));
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int rank = 0; rank < size_; ++rank)
      outputs.at(i).at(static_cast<size_t>(rank)).copy_(meeting.brought_by<Tensors>(rank)[i]);
  meeting.leave();
  return done(outputs.empty() ? Tensors() : outputs.front(), c10d::OpType::ALLGATHER);
}

WorkPtr InProcessBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  std::vector<Tensors> outputs = {flat(output).split(input.numel())};
  Tensors inputs = {flat(input)};
  allgather(outputs, inputs, options);
  return done({output}, c10d::OpType::_ALLGATHER_BASE);
}

WorkPtr InProcessBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  const at::NoGradGuard no_gradients;
  Tensors brought;
  for (const Tensors& list : inputs) brought.insert(brought.end(), list.begin(), list.end());
  const char* name = name_of(options.reduceOp);
  CallDescription call = describe(c10::str("reduce_scatter(", name == nullptr ? "?" : name, ")"), brought);
  if (name == nullptr) call.refusal = "a reduction other than sum, average, maximum and minimum";
  auto meeting = group_->meeting.meet(rank_, call, std::make_shared<Tensors>(brought), limit(options.timeout));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensors parts;
    for (int rank = 0; rank < size_; ++rank)
      parts.push_back(meeting.brought_by<Tensors>(rank)[i * static_cast<size_t>(size_) + static_cast<size_t>(rank_)]);
    reduce_parts(options.reduceOp, parts, outputs[i]);
  }
  meeting.leave();
  return done(outputs, c10d::OpType::REDUCE_SCATTER);
}

WorkPtr InProcessBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  Tensors outputs = {flat(output)};
  std::vector<Tensors> inputs = {flat(input).split(output.numel())};
  reduce_scatter(outputs, inputs, options);
  return done({output}, c10d::OpType::_REDUCE_SCATTER_BASE);
}

WorkPtr InProcessBackend::send(Tensors& tensors, int to, int tag) {
  if (const std::string why = refusal(tensors); !why.empty()) throw CallMismatch("send: " + why);
  // A copy: the sender may write to its tensor at once.
  group_->mailbox.send({rank_, to, tag}, std::make_shared<at::Tensor>(tensors.at(0).detach().clone()));
  return done(tensors, c10d::OpType::SEND);
}

WorkPtr InProcessBackend::recv(Tensors& tensors, int from, int tag) {
  return c10::make_intrusive<Receiving>(group_, group_->mailbox.expect({from, rank_, tag}), tensors.at(0));
}

WorkPtr InProcessBackend::barrier(const c10d::BarrierOptions& options) {
  group_->meeting.meet(rank_, {.operation = "barrier"}, nullptr, limit(options.timeout)).leave();
  return done({}, c10d::OpType::BARRIER);
}

}  // namespace mgtrain
