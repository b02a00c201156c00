// Batches of one epoch, made by native worker threads into a bounded number of ready batches. The bits do not
// depend on the worker count. One consumer thread; the source owns and joins its workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/augment.h"
#include "data/batch.h"
#include "data/image_set.h"

namespace mgtrain {

struct BatchSourceOptions {
  int64_t workers = 1;      // 0: the calling thread makes each batch
  int64_t prefetch = 4;     // batches in the making or ready at most (and at least 1)
  bool pin_memory = false;  // where the process can use a CUDA device; elsewhere ignored
  bool float64 = false;     // images as double (numerics checks): the float32 values, widened
};

/// What a source holds, for reports and tests.
struct BatchSourceStats {
  int64_t ready = 0;       // batches made and not yet taken
  int64_t most_ready = 0;  // the largest `ready` so far
  int64_t buffers = 0;     // image tensors allocated so far, each for one batch size
};

class BatchSource {
 public:
  /// `images` must outlive the source. Throws std::invalid_argument if the transform makes no sense or is for another
  /// shape, ConfigError if the worker threads cannot be started.
  BatchSource(const ImageSet& images, Transform transform, BatchSourceOptions options);
  ~BatchSource();

  /// Starts an epoch: sample `order[i]` in batches of the given sizes (their sum <= order.size()), with random
  /// crop and flip of `epoch` if `augment`. What was in flight is dropped; nothing of it is delivered any more.
  /// Throws std::invalid_argument on a sample outside the set or a batch of less than one sample.
  void start(std::vector<int64_t> order, std::vector<int64_t> batch_sizes, int64_t epoch, bool augment);

  /// The next batch in order, or nothing at the end of the epoch. Its tensors are the caller's for as long as any
  /// tensor shares their storage; then the source may fill them anew. Rethrows a worker's exception, and does so
  /// again until the next start().
  std::optional<Batch> next();

  /// Seconds next() has waited for a batch (with 0 workers: made one) since the last call of this function.
  double take_wait_seconds();

  [[nodiscard]] BatchSourceStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgtrain
