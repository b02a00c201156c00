// The gradients of all ranks added up while backward still runs: c10d's Reducer, wired here and nowhere else.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "optim/optimizer.h"

namespace c10d {
class Logger;
class Reducer;
}  // namespace c10d

namespace mgtrain {

class GradientReducer {
 public:
  /// `parameters`: of this rank, alike on all ranks of the group and in the same order; all get a gradient in every
  /// reducing backward pass. `as_bfloat16`: gradients travel with 8 bits of mantissa; the sum is then taken in
  /// bfloat16.
  GradientReducer(const NamedTensors& parameters, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                  bool as_bfloat16);
  ~GradientReducer();

  /// Before the first forward pass of a step.
  void begin_step();
  /// Before the backward pass after which the gradients are to be the means over the ranks; earlier ones of the step
  /// only add to this rank's own.
  void begin_reducing_backward();

 private:
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;  // the Reducer asks it at every step
};

}  // namespace mgtrain
