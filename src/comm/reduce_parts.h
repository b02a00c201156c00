// What the ranks of one process hold of the same elements, reduced in rank order: the same bits however the elements
// are shared out over ranks, and in every run. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace mgtrain {

enum class Reduction { kSum, kAverage, kMaximum, kMinimum };

/// "sum", "average", "maximum", "minimum".
const char* reduction_name(Reduction reduction);

/// Whether elements of this type can be so reduced: no bool, complex or quantised ones, and averages only of floating
/// point.
bool can_reduce(Reduction reduction, at::ScalarType dtype);

/// Reduces `parts`, one a rank and in their order, element by element, and writes the result to each of `targets`,
/// which may be parts. All contiguous, of one dtype and size; parts may be on any devices that can be copied from to
/// that of the targets. Types of 16 bits are accumulated in float and rounded once; a NaN stays one in any reduction.
void reduce_parts(Reduction reduction, const std::vector<at::Tensor>& parts, const std::vector<at::Tensor>& targets);

}  // namespace mgtrain
