#include "engine/train_feed.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "data/epoch_order.h"

namespace mgtrain {

TrainFeed::TrainFeed(BatchSource& source, const RunPlan& plan, bool drop_last, RankPlace place)
    : source_(source), plan_(plan), drop_last_(drop_last), place_(place) {}

bool TrainFeed::start(int64_t epoch, int64_t offset) {
  const int64_t samples = plan_.dataset.train.num_samples;
  order_ = epoch_order(plan_.seed, epoch, samples);
  order_.erase(order_.begin(), order_.begin() + std::clamp<int64_t>(offset, 0, samples));
  std::vector<int64_t> own_order, own_sizes;
  steps_.clear();
  next_ = 0;
  const auto all = static_cast<int64_t>(order_.size());
  for (int64_t first = 0; first < all;) {
    Step step{.first = first, .count = std::min(all - first, plan_.global_batch)};
    if (drop_last_ && step.count < plan_.global_batch) break;
    for (const int64_t size : micro_batch_sizes(plan_, step.count)) {
      const ShareOfRank share = share_of_rank(size, place_.rank, place_.ranks);
      const auto begin = order_.begin() + first + share.first;
      own_order.insert(own_order.end(), begin, begin + share.count);
      if (share.count > 0) own_sizes.push_back(share.count);
      step.own_parts.push_back(share.count);
      first += size;
    }
    steps_.push_back(std::move(step));
  }
  if (steps_.empty()) return false;
  source_.start(std::move(own_order), std::move(own_sizes), epoch, /*augment=*/true);
  return true;
}

StepData TrainFeed::next() {
  if (!has_next()) throw std::logic_error("no batch is left of the epoch");
  const Step& step = steps_[next_++];
  StepData data{.global_count = step.count};
  data.samples.assign(order_.begin() + step.first, order_.begin() + step.first + step.count);
  for (const int64_t count : step.own_parts) {
    if (count == 0) {
      data.micro_batches.push_back(empty_batch());
      continue;
    }
    std::optional<Batch> batch = source_.next();
    if (!batch) throw std::logic_error("the data ended before their epoch");
    data.micro_batches.push_back(std::move(*batch));
  }
  return data;
}

Batch TrainFeed::empty_batch() const {
  const at::ScalarType dtype = plan_.dtype == "float64" ? at::kDouble : at::kFloat;
  return {.images = at::empty({0, plan_.model.in_channels, plan_.model.height, plan_.model.input_width}, dtype),
          .labels = at::empty({0}, at::kLong)};
}

}  // namespace mgtrain
