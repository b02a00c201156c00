// Exact evaluation: every sample once, on all devices of the strategy and over all ranks, however many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "data/batch_source.h"
#include "observe/observer.h"
#include "parallel/strategy.h"

namespace mgtrain {

class Evaluator {
 public:
  /// `source` delivers `num_samples` images of `num_classes` classes, in batches of `batch` (global).
  Evaluator(Strategy& strategy, BatchSource& source, int64_t num_samples, int64_t batch, int64_t num_classes,
            const Clock& clock);

  /// The results as a report without step, epoch and is_best. Loss: mean cross-entropy without label smoothing, in
  /// float64; top-1: the largest logit (of equal ones the first) is the label; top-5 among all classes if these are
  /// fewer. `progress` is told the samples done before each batch; false ends it on all ranks: no report. With ranks,
  /// all call this, each evaluates its part of every batch, and each returns the report of them all.
  std::optional<EvalReport> run(const std::function<bool(int64_t done)>& progress);

 private:
  Strategy& strategy_;
  BatchSource& source_;
  int64_t num_samples_, batch_, num_classes_;
  const Clock& clock_;
};

}  // namespace mgtrain
