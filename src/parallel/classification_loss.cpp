#include "parallel/classification_loss.h"

#include <torch/types.h>

namespace mgtrain {

ClassificationLoss classification_loss(const at::Tensor& logits_NK, const at::Tensor& labels_N, int64_t global_count,
                                       double label_smoothing) {
  const at::Tensor sum = at::cross_entropy_loss(logits_NK, labels_N, /*weight=*/{}, at::Reduction::Sum,
                                                /*ignore_index=*/-100, label_smoothing);
  return {.objective = sum / static_cast<double>(global_count),
          .sums = {.loss_sum = sum.detach().to(at::kDouble), .top1 = logits_NK.detach().argmax(1).eq(labels_N).sum()}};
}

void add_to(StepSums& sums, const StepSums& part) {
  if (!sums.loss_sum.defined()) {
    sums = part;
    return;
  }
  sums.loss_sum = sums.loss_sum + part.loss_sum;
  sums.top1 = sums.top1 + part.top1;
}

}  // namespace mgtrain
