#include "engine/checkpointer.h"

#include <utility>

namespace mgtrain {

Checkpointer::Checkpointer(Parts parts, RunRecord description)
    : parts_(std::move(parts)), record_(std::move(description)) {}

void Checkpointer::save(const TrainState& state) {
  const double start = parts_.clock.monotonic_seconds();
  parts_.observer.flush();
  record_.state = state;
  record_.file_lengths = parts_.file_lengths();
  const Snapshot snapshot{
      .record = record_, .model = parts_.strategy.full_state(), .optimizer = parts_.optimizer.state()};
  const uint64_t bytes = parts_.store.commit(state.step, checkpoint_files(snapshot));
  if (state.best_step == state.step) parts_.store.set_best(state.step);
  parts_.observer.on_checkpoint({.step = state.step,
                                 .path = parts_.store.folder_of(state.step).string(),
                                 .bytes = bytes,
                                 .seconds = parts_.clock.monotonic_seconds() - start});
}

}  // namespace mgtrain
