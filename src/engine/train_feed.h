// The training data as the trainer takes it: for each step of an epoch this rank's micro-batches, from any sample of
// any epoch on, so that a resumed run sees what an unbroken one would have seen.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_source.h"
#include "parallel/strategy.h"
#include "plan/run_plan.h"

namespace mgtrain {

struct StepData {
  std::vector<Batch> micro_batches;  // this rank's parts; empty ones only where there are several ranks
  int64_t global_count = 0;          // samples of the step over all ranks
  std::vector<int64_t> samples;      // their indices in the data set, in order
};

class TrainFeed {
 public:
  /// `source` delivers the training images; plan says how a batch is cut: each micro-batch evenly over the ranks, in
  /// their order, as data parallelism cuts it over its replicas.
  TrainFeed(BatchSource& source, const RunPlan& plan, bool drop_last, RankPlace place = {});

  /// Starts `epoch` (0-based) after `offset` of its samples. False if no batch is left of it: what a resumed run with
  /// another batch size may find before the end of an epoch whose rest is dropped.
  bool start(int64_t epoch, int64_t offset);
  /// Whether a batch is left of the epoch.
  [[nodiscard]] bool has_next() const { return next_ < steps_.size(); }
  StepData next();
  /// Seconds next() has waited for the data since the last call of this function.
  double take_wait_seconds() { return source_.take_wait_seconds(); }

 private:
  struct Step {
    int64_t first = 0, count = 0;    // of order_
    std::vector<int64_t> own_parts;  // this rank's samples of each micro-batch
  };
  [[nodiscard]] Batch empty_batch() const;

  BatchSource& source_;
  const RunPlan& plan_;
  bool drop_last_;
  RankPlace place_;
  std::vector<int64_t> order_;  // what is left of the epoch
  std::vector<Step> steps_;
  size_t next_ = 0;
};

}  // namespace mgtrain
