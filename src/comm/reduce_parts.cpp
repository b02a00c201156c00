#include "comm/reduce_parts.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mgtrain {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Block by block, small enough for the innermost cache: every element is read and written once from memory.
template <class T, class Combine>
void reduce_blocks(const Tensors& parts, const Tensors& targets, bool average, Combine combine) {
  using Sum = at::opmath_type<T>;  // float for types of 16 bits, else T
  constexpr int64_t kBlock = 1024;
  std::array<Sum, kBlock> sums;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  std::array<T, kBlock> rounded;
  std::vector<const T*> from;
  std::vector<T*> to;
  for (const at::Tensor& part : parts) from.push_back(part.const_data_ptr<T>());
  for (const at::Tensor& target : targets) to.push_back(target.mutable_data_ptr<T>());
  const int64_t elements = targets.front().numel();
  for (int64_t first = 0; first < elements; first += kBlock) {
    const int64_t count = std::min(kBlock, elements - first);
    const T *one = from[0] + first, *two = from[1] + first;
    for (int64_t i = 0; i < count; ++i) {
      sums[i] = static_cast<Sum>(combine(static_cast<Sum>(one[i]), static_cast<Sum>(two[i])));
    }
    for (size_t rank = 2; rank < from.size(); ++rank) {
      const T* next = from[rank] + first;
      for (int64_t i = 0; i < count; ++i) {
        sums[i] = static_cast<Sum>(combine(sums[i], static_cast<Sum>(next[i])));
      }
    }
    if (average) {
      const auto divisor = static_cast<Sum>(from.size());
      for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<Sum>(sums[i] / divisor);
    }
    const T* result = rounded.data();
    if constexpr (std::is_same_v<T, Sum>) {
      result = sums.data();
    } else {
      for (int64_t i = 0; i < count; ++i) rounded[i] = static_cast<T>(sums[i]);
    }
    for (T* target : to) std::memcpy(target + first, result, static_cast<size_t>(count) * sizeof(T));
  }
}

template <class T>
void reduce_on_cpu(Reduction reduction, const Tensors& parts, const Tensors& targets) {
  using Sum = at::opmath_type<T>;
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAverage:
      return reduce_blocks<T>(parts, targets, reduction == Reduction::kAverage, [](Sum a, Sum b) { return a + b; });
    case Reduction::kMaximum:  // b != b: a NaN
      return reduce_blocks<T>(parts, targets, false, [](Sum a, Sum b) { return b > a || b != b ? b : a; });
    case Reduction::kMinimum:
      return reduce_blocks<T>(parts, targets, false, [](Sum a, Sum b) { return b < a || b != b ? b : a; });
  }
}

void combine(Reduction reduction, at::Tensor& out, const at::Tensor& one, const at::Tensor& other) {
  if (reduction == Reduction::kMaximum) {
    at::maximum_out(out, one, other);
  } else if (reduction == Reduction::kMinimum) {
    at::minimum_out(out, one, other);
  } else {
    at::add_out(out, one, other);
  }
}

/// By operations of the targets' device, with the bits of the CPU.
void reduce_on_device(Reduction reduction, const Tensors& parts, const at::Tensor& out) {
  const bool average = reduction == Reduction::kAverage;
  const bool rounds = at::isReducedFloatingType(out.scalar_type()) && (parts.size() > 2 || average);
  const auto local = [&](const at::Tensor& part) {
    const at::Tensor here = part.device() == out.device() ? part : part.to(out.device());
    return rounds ? here.to(at::kFloat) : here;
  };
  if (parts.size() == 2 && !rounds) {
    at::Tensor result = out;
    combine(reduction, result, local(parts[0]), local(parts[1]));
    if (average) result.div_(2);
    return;
  }
  at::Tensor sum = at::empty_like(out, out.options().dtype(rounds ? at::kFloat : out.scalar_type()));
  combine(reduction, sum, local(parts[0]), local(parts[1]));
  for (size_t rank = 2; rank < parts.size(); ++rank) combine(reduction, sum, sum, local(parts[rank]));
  if (average) sum.div_(static_cast<int64_t>(parts.size()));
  out.copy_(sum);
}

}  // namespace

const char* reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kAverage:
      return "average";
    case Reduction::kMaximum:
      return "maximum";
    case Reduction::kMinimum:
      return "minimum";
  }
  return "?";
}

bool can_reduce(Reduction reduction, at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
      return true;
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
      return reduction != Reduction::kAverage;
    default:
      return false;
  }
}

void reduce_parts(Reduction reduction, const Tensors& parts, const Tensors& targets) {
  if (targets.front().numel() == 0) return;
  if (parts.size() == 1) {
    for (const at::Tensor& target : targets) {
      if (!target.is_same(parts[0])) target.copy_(parts[0]);
    }
  } else if (targets.front().is_cpu()) {
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, targets.front().scalar_type(), "reduce_parts",
                               [&] { reduce_on_cpu<scalar_t>(reduction, parts, targets); });
  } else {
    for (const at::Tensor& target : targets) reduce_on_device(reduction, parts, target);
  }
}

}  // namespace mgtrain
