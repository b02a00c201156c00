// What a rank is about to do with its tensors, in the words that meeting_point.h compares between ranks and shows where
// they differ or a rank cannot take part. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "comm/meeting_point.h"
#include "comm/reduce_parts.h"

namespace mgtrain {

/// Why these tensors cannot be used as they are, on whatever rank; empty: they can.
std::string refusal(const std::vector<at::Tensor>& tensors);

/// The same for tensors that only this rank knows ("output"), beside what all ranks bring: there must be one for each
/// of `like`, with its dtype and device and as many elements.
std::string own_refusal(const char* what, const std::vector<at::Tensor>& own, const std::vector<at::Tensor>& like);

/// `root`: "rank 0", empty where there is none.
CallDescription describe(std::string operation, const std::vector<at::Tensor>& tensors, std::string root = {});

/// Nothing: one that there is no code for.
std::optional<Reduction> reduction_of(const c10d::ReduceOp& operation);

/// "all_reduce(sum)"; refuses what cannot be so reduced.
CallDescription describe_reduction(const char* operation, std::optional<Reduction> reduction,
                                   const std::vector<at::Tensor>& tensors);

}  // namespace mgtrain
