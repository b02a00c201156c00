// The training data as the trainer takes it: for each step of an epoch its micro-batches, from any sample of any
// epoch on, so that a resumed run sees what an unbroken one would have seen.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_source.h"
#include "plan/run_plan.h"

namespace mgtrain {

class TrainFeed {
 public:
  /// `source` delivers the training images; plan says how a batch is cut.
  TrainFeed(BatchSource& source, const RunPlan& plan, bool drop_last);

  /// Starts `epoch` (0-based) after `offset` of its samples. False if no batch is left of it: what a resumed run with
  /// another batch size may find before the end of an epoch whose rest is dropped.
  bool start(int64_t epoch, int64_t offset);
  /// Whether a batch is left of the epoch.
  [[nodiscard]] bool has_next() const { return next_ < batches_.size(); }
  /// The micro-batches of the next step, none empty.
  std::vector<Batch> next();
  /// Seconds next() has waited for the data since the last call of this function.
  double take_wait_seconds() { return source_.take_wait_seconds(); }

 private:
  BatchSource& source_;
  const RunPlan& plan_;
  bool drop_last_;
  std::vector<size_t> batches_;  // micro-batches of each step left of the epoch
  size_t next_ = 0;
};

}  // namespace mgtrain
