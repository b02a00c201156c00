#include "parallel/local_strategy.h"

#include <c10/core/DeviceGuard.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "data/epoch_order.h"
#include "parallel/classification_loss.h"
#include "parallel/evaluation_mode.h"
#include "parallel/thread_count.h"

namespace mgtrain {
namespace {

void check_counts(std::span<const Batch> micro_batches, int64_t global_count) {
  int64_t count = 0;
  for (const Batch& batch : micro_batches) {
    if (batch.count() < 1 || batch.images.size(0) != batch.count() || batch.labels.size(0) != batch.count()) {
      throw std::logic_error("a micro-batch of " + std::to_string(batch.count()) + " samples with " +
                             std::to_string(batch.images.size(0)) + " images and " +
                             std::to_string(batch.labels.size(0)) + " labels");
    }
    count += batch.count();
  }
  if (micro_batches.empty() || count != global_count) {
    throw std::logic_error("micro-batches of " + std::to_string(count) + " samples in a step of " +
                           std::to_string(global_count));
  }
}

}  // namespace

std::string device_label(const StrategyOptions& options, size_t position) {
  return position < options.device_labels.size() ? options.device_labels[position] : options.devices.at(position).str();
}

std::string device_labels(const StrategyOptions& options) {
  std::string labels;
  for (size_t i = 0; i < options.devices.size(); ++i) labels += (i > 0 ? ", " : "") + device_label(options, i);
  return labels;
}

DeviceWork work_of_all(const StrategyOptions& options, std::string phase, int64_t count) {
  DeviceWork work{.device = device_labels(options), .phase = std::move(phase), .samples = count, .batch = count};
  const std::vector<int64_t> shares = even_shares(count, static_cast<int64_t>(options.devices.size()));
  for (size_t i = 0; i < shares.size(); ++i) work.candidates.emplace_back(device_label(options, i), shares[i]);
  return work;
}

LocalStrategy::LocalStrategy(std::shared_ptr<Classifier> model, StrategyOptions options, int threads)
    : model_(std::move(model)), options_(std::move(options)), threads_(threads) {
  if (options_.devices.empty()) throw std::logic_error("a strategy without devices");
}

at::Tensor LocalStrategy::forward(const Batch& batch) {
  const double start = SystemClock().monotonic_seconds();
  at::Tensor result =
      logits(options_.channels_last ? batch.images.contiguous(at::MemoryFormat::ChannelsLast) : batch.images);
  times_.forward_seconds += SystemClock().monotonic_seconds() - start;
  return result;
}

StepSums LocalStrategy::forward_backward(const Batch& batch, int64_t global_count) {
  DeviceWork work = work_of_all(options_, "forward", batch.count());
  try {
    const at::Tensor labels = batch.labels.to(primary(), /*non_blocking=*/true);
    const ClassificationLoss loss = classification_loss(forward(batch), labels, global_count, options_.label_smoothing);
    work.phase = "backward";
    const double start = SystemClock().monotonic_seconds();
    loss.objective.backward();
    times_.backward_seconds += SystemClock().monotonic_seconds() - start;
    return loss.sums;
  } catch (...) {
    weights_changed();  // statistics may have moved
    rethrow_as_device_error(work);
  }
}

StepSums LocalStrategy::forward_backward(std::span<const Batch> micro_batches, int64_t global_count) {
  check_counts(micro_batches, global_count);
  const ThreadCountGuard threads(threads_);
  const c10::DeviceGuard device(primary());
  const at::AutoGradMode with_gradients(true);
  for (at::Tensor& parameter : model_->parameters()) parameter.mutable_grad().reset();
  weights_changed();
  times_ = {};
  StepSums sums;
  for (const Batch& batch : micro_batches) add_to(sums, forward_backward(batch, global_count));
  weights_changed();  // statistics have, and the optimizer is about to
  take_times(times_);
  return sums;
}

EvalSums LocalStrategy::evaluate(const Batch& batch) {
  check_counts({&batch, 1}, batch.count());
  const ThreadCountGuard threads(threads_);
  const c10::DeviceGuard device(primary());
  const torch::NoGradGuard no_gradients;
  const EvaluationMode evaluation(*model_);
  times_ = {};
  EvalSums sums;
  try {
    sums = {.logits_NK = forward(batch), .labels_N = batch.labels.to(primary(), /*non_blocking=*/true)};
  } catch (...) {
    rethrow_as_device_error(work_of_all(options_, "evaluation", batch.count()));
  }
  take_times(times_);
  return sums;
}

NamedTensors LocalStrategy::trainable_parameters() {
  NamedTensors tensors;
  for (const auto& item : model_->named_parameters())
    if (item.value().requires_grad()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

NamedTensors LocalStrategy::full_state() { return state_tensors(*model_); }

std::vector<double> sum_over_ranks(Strategy& strategy, const std::vector<double>& values) {
  if (strategy.place().ranks == 1) return values;
  const at::Tensor sums =
      strategy.sum_over_ranks(torch::tensor(values, at::kDouble).to(strategy.primary())).to(at::kCPU);
  return {sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel()};
}

NamedTensors state_tensors(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

}  // namespace mgtrain
