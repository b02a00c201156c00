// Saves a run: the weights of the strategy, the state of the optimizer and the counters, with the lengths the run's
// files have at that moment. They are copied between two steps; a thread of its own writes the copy while training
// goes on, at most one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/snapshot.h"
#include "checkpoint/store.h"
#include "observe/observer.h"
#include "optim/optimizer.h"
#include "parallel/strategy.h"

namespace mgtrain {

class Checkpointer {
 public:
  struct Parts {
    CheckpointStore& store;  // used by the writing thread
    Strategy& strategy;
    Optimizer& optimizer;
    Observer& observer;  // only called from within the functions below
    /// Of the files that a resume cuts back.
    std::function<std::map<std::string, uint64_t>()> file_lengths;
  };
  /// `description`: all of the record but state and file lengths.
  Checkpointer(Parts parts, RunRecord description);
  /// Waits for a checkpoint that is being written.
  ~Checkpointer();

  /// Copies `state` and all tensors and starts to commit them as a checkpoint, and as best/ if it is the best so far.
  /// What was reported before is on disk first. Waits only if the one before is still being written. Throws
  /// OutputError, also for that one.
  void save(const TrainState& state);
  /// Reports a checkpoint that has been committed meanwhile. Throws the OutputError of one that could not be.
  void collect();
  /// The same, but waits for it.
  void finish();

 private:
  /// The copies, kept for the next time.
  using Copies = std::map<std::string, at::Tensor>;
  NamedTensors copied(const NamedTensors& tensors, Copies& copies) const;

  Parts parts_;
  Snapshot snapshot_;
  Copies model_copies_, optimizer_copies_;
  std::future<CheckpointReport> writing_;
};

}  // namespace mgtrain
