#include "comm/describe_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <sstream>
#include <utility>

namespace mgtrain {

using Tensors = std::vector<at::Tensor>;

std::string refusal(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.layout() != at::kStrided || !tensor.is_contiguous()) {
      return "a tensor that is not contiguous; call contiguous() first";
    }
    if (tensor.device() != tensors.front().device()) {
      return c10::str("its tensors are on ", tensors.front().device(), " and ", tensor.device());
    }
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

std::string own_refusal(const char* what, const Tensors& own, const Tensors& like) {
  if (own.size() != like.size()) return c10::str(own.size(), " ", what, " tensors where ", like.size(), " are needed");
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].scalar_type() != like[i].scalar_type() || own[i].numel() != like[i].numel() ||
        own[i].device() != like[i].device()) {
      return c10::str("an ", what, " tensor of ", own[i].scalar_type(), " ", own[i].sizes(), " on ", own[i].device(),
                      " where ", like[i].scalar_type(), " ", like[i].sizes(), " on ", like[i].device(), " is needed");
    }
  }
  return refusal(own);
}

CallDescription describe(std::string operation, const Tensors& tensors, std::string root) {
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

std::optional<Reduction> reduction_of(const c10d::ReduceOp& operation) {
  switch (operation) {
    case c10d::ReduceOp::SUM:
      return Reduction::kSum;
    case c10d::ReduceOp::AVG:
      return Reduction::kAverage;
    case c10d::ReduceOp::MAX:
      return Reduction::kMaximum;
    case c10d::ReduceOp::MIN:
      return Reduction::kMinimum;
    default:
      return std::nullopt;
  }
}

CallDescription describe_reduction(const char* operation, std::optional<Reduction> reduction, const Tensors& tensors) {
  CallDescription call = describe(c10::str(operation, "(", reduction ? reduction_name(*reduction) : "?", ")"), tensors);
  if (!reduction) call.refusal = "a reduction other than sum, average, maximum and minimum";
  for (const at::Tensor& tensor : tensors) {
    if (reduction && !can_reduce(*reduction, tensor.scalar_type())) {
      call.refusal = c10::str("no ", reduction_name(*reduction), " of ", tensor.scalar_type(), " elements");
    }
  }
  return call;
}

}  // namespace mgtrain
