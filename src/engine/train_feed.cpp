#include "engine/train_feed.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "data/epoch_order.h"

namespace mgtrain {

TrainFeed::TrainFeed(BatchSource& source, const RunPlan& plan, bool drop_last)
    : source_(source), plan_(plan), drop_last_(drop_last) {}

bool TrainFeed::start(int64_t epoch, int64_t offset) {
  const int64_t samples = plan_.dataset.train.num_samples;
  std::vector<int64_t> order = epoch_order(plan_.seed, epoch, samples);
  order.erase(order.begin(), order.begin() + std::clamp<int64_t>(offset, 0, samples));
  std::vector<int64_t> sizes;
  batches_.clear();
  next_ = 0;
  for (auto left = static_cast<int64_t>(order.size()); left > 0;) {
    const int64_t count = std::min(left, plan_.global_batch);
    if (drop_last_ && count < plan_.global_batch) break;
    const std::vector<int64_t> pieces = micro_batch_sizes(plan_, count);
    sizes.insert(sizes.end(), pieces.begin(), pieces.end());
    batches_.push_back(pieces.size());
    left -= count;
  }
  if (batches_.empty()) return false;
  source_.start(std::move(order), std::move(sizes), epoch, /*augment=*/true);
  return true;
}

std::vector<Batch> TrainFeed::next() {
  if (!has_next()) throw std::logic_error("no batch is left of the epoch");
  std::vector<Batch> micro_batches;
  for (size_t i = 0; i < batches_[next_]; ++i) {
    std::optional<Batch> batch = source_.next();
    if (!batch) throw std::logic_error("the data ended before their epoch");
    micro_batches.push_back(std::move(*batch));
  }
  ++next_;
  return micro_batches;
}

}  // namespace mgtrain
