#include "engine/evaluator.h"

#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/epoch_order.h"

namespace mgtrain {
namespace {

/// Sums over the samples seen so far.
class Tally {
 public:
  explicit Tally(int64_t num_classes)
      : confusion_(static_cast<size_t>(num_classes), std::vector<int64_t>(static_cast<size_t>(num_classes), 0)) {}

  void add(const EvalSums& sums) {
    const at::Tensor logits = sums.logits_NK.to(at::kCPU, at::kDouble);
    const at::Tensor labels = sums.labels_N.to(at::kCPU);
    loss_sum_ += at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
    const int64_t classes = logits.size(1);
    const at::Tensor best = std::get<1>(logits.topk(std::min<int64_t>(5, classes), 1)).contiguous();
    const at::Tensor first = logits.argmax(1).contiguous();
    const auto label = labels.accessor<int64_t, 1>();
    const auto predicted = first.accessor<int64_t, 1>();
    const auto top5 = best.accessor<int64_t, 2>();
    for (int64_t i = 0; i < labels.size(0); ++i) {
      ++confusion_[static_cast<size_t>(label[i])][static_cast<size_t>(predicted[i])];
      top1_ += predicted[i] == label[i] ? 1 : 0;
      for (int64_t k = 0; k < top5.size(1); ++k) top5_ += top5[i][k] == label[i] ? 1 : 0;
    }
    count_ += labels.size(0);
  }

  /// With those of all ranks.
  void sum_over_ranks(Strategy& strategy) {
    std::vector<double> numbers = {loss_sum_, static_cast<double>(top1_), static_cast<double>(top5_),
                                   static_cast<double>(count_)};
    for (const auto& row : confusion_) numbers.insert(numbers.end(), row.begin(), row.end());
    numbers = mgtrain::sum_over_ranks(strategy, numbers);  // exact for counts below 2^53
    loss_sum_ = numbers[0];
    top1_ = static_cast<int64_t>(numbers[1]);
    top5_ = static_cast<int64_t>(numbers[2]);
    count_ = static_cast<int64_t>(numbers[3]);
    auto number = numbers.begin() + 4;
    for (auto& row : confusion_)
      for (int64_t& cell : row) cell = static_cast<int64_t>(*number++);
  }

  [[nodiscard]] EvalReport report() const {
    EvalReport report;
    report.num_samples = count_;
    const auto count = static_cast<double>(count_);
    report.loss = loss_sum_ / count;
    report.top1 = static_cast<double>(top1_) / count;
    report.top5 = static_cast<double>(top5_) / count;
    for (size_t c = 0; c < confusion_.size(); ++c) {
      const int64_t of_class = std::accumulate(confusion_[c].begin(), confusion_[c].end(), int64_t{0});
      report.class_accuracy.push_back(of_class == 0
                                          ? std::numeric_limits<double>::quiet_NaN()
                                          : static_cast<double>(confusion_[c][c]) / static_cast<double>(of_class));
    }
    report.confusion = confusion_;
    return report;
  }

 private:
  std::vector<std::vector<int64_t>> confusion_;
  double loss_sum_ = 0;
  int64_t top1_ = 0, top5_ = 0, count_ = 0;
};

/// Whether every rank wants to go on.
bool all_go_on(Strategy& strategy, bool go_on) {
  if (strategy.place().ranks == 1) return go_on;
  return sum_over_ranks(strategy, {go_on ? 0.0 : 1.0}).front() == 0;
}

}  // namespace

Evaluator::Evaluator(Strategy& strategy, BatchSource& source, int64_t num_samples, int64_t batch, int64_t num_classes,
                     const Clock& clock)
    : strategy_(strategy),
      source_(source),
      num_samples_(num_samples),
      batch_(batch),
      num_classes_(num_classes),
      clock_(clock) {}

std::optional<EvalReport> Evaluator::run(const std::function<bool(int64_t done)>& progress) {
  const double start = clock_.monotonic_seconds();
  const at::NoGradGuard no_gradients;
  const RankPlace place = strategy_.place();
  std::vector<int64_t> order, sizes;
  for (int64_t first = 0; first < num_samples_; first += batch_) {
    const ShareOfRank share = share_of_rank(std::min(batch_, num_samples_ - first), place.rank, place.ranks);
    for (int64_t i = 0; i < share.count; ++i) order.push_back(first + share.first + i);
    if (share.count > 0) sizes.push_back(share.count);
  }
  const int64_t own = static_cast<int64_t>(order.size());
  source_.start(std::move(order), std::move(sizes), /*epoch=*/0, /*augment=*/false);
  strategy_.prepare_evaluation();
  Tally tally(num_classes_);
  int64_t done = 0;
  for (int64_t first = 0; first < num_samples_; first += batch_) {
    if (!all_go_on(strategy_, progress(first))) return std::nullopt;
    if (share_of_rank(std::min(batch_, num_samples_ - first), place.rank, place.ranks).count == 0) continue;
    const std::optional<Batch> batch = source_.next();
    if (!batch) break;
    tally.add(strategy_.evaluate(*batch));
    done += batch->count();
  }
  if (!all_go_on(strategy_, progress(num_samples_))) return std::nullopt;
  if (done != own) throw std::logic_error("evaluation saw another number of samples than the set has");
  if (place.ranks > 1) tally.sum_over_ranks(strategy_);
  EvalReport report = tally.report();
  report.seconds = clock_.monotonic_seconds() - start;
  return report;
}

}  // namespace mgtrain
