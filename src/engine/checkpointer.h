// Saves a run: the weights of the strategy, the state of the optimizer and the counters, with the lengths the run's
// files have at that moment.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/store.h"
#include "observe/observer.h"
#include "optim/optimizer.h"
#include "parallel/strategy.h"

namespace mgtrain {

class Checkpointer {
 public:
  struct Parts {
    CheckpointStore& store;
    Strategy& strategy;
    Optimizer& optimizer;
    Observer& observer;
    const Clock& clock;
    /// Of the files that a resume cuts back.
    std::function<std::map<std::string, uint64_t>()> file_lengths;
  };
  /// `description`: all of the record but state and file lengths.
  Checkpointer(Parts parts, RunRecord description);

  /// Commits a checkpoint of `state`, makes it best/ if it is the best so far, and reports it. What was reported
  /// before is on disk first. Throws OutputError.
  void save(const TrainState& state);

 private:
  Parts parts_;
  RunRecord record_;
};

}  // namespace mgtrain
