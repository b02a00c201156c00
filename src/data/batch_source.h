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
  int64_t workers = 1;          // 0: the calling thread makes each batch
  int64_t prefetch = 4;         // ready batches at most
  bool pin_memory = false;
  bool float64 = false;         // images as double (numerics checks)
};

class BatchSource {
 public:
  /// `images` must outlive the source.
  BatchSource(const ImageSet& images, Transform transform, BatchSourceOptions options);
  ~BatchSource();

  /// Starts an epoch: sample `order[i]` in batches of the given sizes (their sum <= order.size()), with random
  /// crop and flip of `epoch` if `augment`. What was in flight is dropped.
  void start(std::vector<int64_t> order, std::vector<int64_t> batch_sizes, int64_t epoch, bool augment);

  /// The next batch in order, or nothing at the end of the epoch. Rethrows a worker's exception.
  std::optional<Batch> next();

  /// Seconds next() has waited for a batch since the last call of this function.
  double take_wait_seconds();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgtrain
