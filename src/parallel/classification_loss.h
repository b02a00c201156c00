// Cross-entropy as sums over samples, so that neither micro-batches nor uneven shares can bias the loss or gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "parallel/strategy.h"

namespace mgtrain {

struct ClassificationLoss {
  at::Tensor objective;  // 0-dim, with a graph: these samples' part of the mean loss over global_count samples
  StepSums sums;         // without one
};

/// logits_NK: floating; labels_N: int64 on the same device. Smoothed as by torch.nn.CrossEntropyLoss(label_smoothing).
ClassificationLoss classification_loss(const at::Tensor& logits_NK, const at::Tensor& labels_N, int64_t global_count,
                                       double label_smoothing);

/// Adds `part`; `sums` may be empty (undefined tensors).
void add_to(StepSums& sums, const StepSums& part);

}  // namespace mgtrain
