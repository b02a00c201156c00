#include "engine/checkpointer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <utility>

#include "base/clock.h"

namespace mgtrain {

Checkpointer::Checkpointer(Parts parts, RunRecord description)
    : parts_(std::move(parts)), snapshot_{.record = std::move(description)} {}

Checkpointer::~Checkpointer() {
  if (writing_.valid()) writing_.wait();
}

NamedTensors Checkpointer::copied(const NamedTensors& tensors, Copies& copies) const {
  const torch::NoGradGuard no_gradients;
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor& copy = copies[name];
    if (!copy.defined()) copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
    copy.copy_(tensor);  // into the order of the file, whatever the strides of the tensor
    result.emplace_back(name, copy);
  }
  return result;
}

void Checkpointer::save(const TrainState& state) {
  finish();
  parts_.observer.flush();
  snapshot_.record.state = state;
  snapshot_.record.file_lengths = parts_.file_lengths();
  snapshot_.model = copied(parts_.strategy.full_state(), model_copies_);
  snapshot_.optimizer = copied(parts_.optimizer.state(), optimizer_copies_);
  writing_ = std::async(std::launch::async, [this, step = state.step, best = state.best_step == state.step] {
    const double start = SystemClock().monotonic_seconds();
    const uint64_t bytes = parts_.store.commit(step, checkpoint_files(snapshot_));
    if (best) parts_.store.set_best(step);
    return CheckpointReport{.step = step,
                            .path = parts_.store.folder_of(step).string(),
                            .bytes = bytes,
                            .seconds = SystemClock().monotonic_seconds() - start};
  });
}

void Checkpointer::collect() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void Checkpointer::finish() {
  if (writing_.valid()) parts_.observer.on_checkpoint(writing_.get());
}

}  // namespace mgtrain
