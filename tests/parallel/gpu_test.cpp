// Data parallelism on real GPUs: hidden from the ordinary run, started by scripts/gpu_check.sh. With one GPU it stands
// in the list twice, as two replicas with weights of their own. What needs more GPUs than there are says "not run".
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include <torch/optim/sgd.h>

#include "base/error.h"
#include "data/epoch_order.h"
#include "parallel/data_parallel.h"
#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

int gpus_here() { return at::hasCUDA() ? static_cast<int>(at::accelerator::deviceCount()) : 0; }

at::Device gpu(int index) { return {at::kCUDA, static_cast<at::DeviceIndex>(index)}; }

bool not_run(int gpus_needed) {
  if (gpus_here() >= gpus_needed) return false;
  WARN("not run: needs " << gpus_needed << " GPU(s), found " << gpus_here());
  return true;
}

/// Two GPUs, or the only one twice.
std::vector<at::Device> pair_of_gpus() { return {gpu(0), gpu(gpus_here() > 1 ? 1 : 0)}; }

StrategyOptions on(std::vector<at::Device> devices, bool channels_last = false) {
  StrategyOptions options{.devices = std::move(devices), .channels_last = channels_last};
  for (size_t i = 0; i < options.devices.size(); ++i)
    options.device_labels.push_back(options.devices[i].str() + " as replica " + std::to_string(i));
  return options;
}

Batch pinned(Batch batch) {
  batch.images = batch.images.pin_memory();
  batch.labels = batch.labels.pin_memory();
  return batch;
}

std::vector<double> train(Strategy& strategy, const std::shared_ptr<SmallNet>& model, int64_t count) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (uint64_t i = 0; i < 4; ++i) {
    losses.push_back(step(strategy, pinned(make_batch(count, i, at::kDouble))).loss_sum.item<double>());
    optimizer.step();
  }
  return losses;
}

void check_equal_state(Strategy& actual, Strategy& expected, double tolerance) {
  const auto a = actual.full_state(), e = expected.full_state();
  REQUIRE(a.size() == e.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].first);
    CHECK(relative_difference(a[i].second, e[i].second) < tolerance);
  }
}

}  // namespace

// fp64 through different kernels (cuDNN, oneDNN): 1e-9 leaves room for four steps of rounding.
TEST_CASE("two replicas on GPUs train as two replicas on the CPU", "[.gpu]") {
  if (not_run(1)) return;
  const int64_t count = GENERATE(16, 13, 1);  // data_parallel itself; its four parts; a batch of one on two devices
  const bool channels_last = GENERATE(false, true);
  CAPTURE(count, channels_last);
  const SmallNetOptions net{.dtype = at::kDouble};
  const auto model = make_net(net, channels_last), reference = make_net(net, channels_last);
  const auto strategy = make_data_parallel(model, twin_of(net), on(pair_of_gpus(), channels_last));
  const auto expected = make_data_parallel(reference, twin_of(net), cpu_replicas(2, channels_last));
  const auto losses = train(*strategy, model, count), expected_losses = train(*expected, reference, count);
  for (size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == Approx(expected_losses[i]).epsilon(1e-9));
  check_equal_state(*strategy, *expected, 1e-9);
  CHECK(model->conv1->weight.device() == gpu(0));
  const Batch batch = pinned(make_batch(7, 9, at::kDouble));
  CHECK(relative_difference(strategy->evaluate(batch).logits_NK, expected->evaluate(batch).logits_NK) < 1e-9);
}

TEST_CASE("replicas on GPUs leave the gradient that one GPU leaves", "[.gpu]") {
  if (not_run(1)) return;
  const int64_t count = GENERATE(24, 13);
  const SmallNetOptions net{.batch_norm = false, .dtype = at::kDouble};
  const auto model = make_net(net), reference = make_net(net);
  const auto strategy = make_data_parallel(model, twin_of(net), on(pair_of_gpus()));
  const auto single = make_single_device(reference, on({gpu(0)}));
  const std::vector<Batch> micro{pinned(make_batch(count, 0, at::kDouble)), make_batch(3, 1, at::kDouble)};
  const StepSums sums = strategy->forward_backward(micro, count + 3);
  const StepSums expected = single->forward_backward(micro, count + 3);
  CHECK(sums.loss_sum.item<double>() == Approx(expected.loss_sum.item<double>()).epsilon(1e-10));
  CHECK(sums.top1.item<int64_t>() == expected.top1.item<int64_t>());
  for (const auto& item : model->named_parameters())
    CHECK(relative_difference(item.value().grad(), reference->named_parameters()[item.key()].grad()) < 1e-10);
}

TEST_CASE("one GPU trains as the CPU", "[.gpu]") {
  if (not_run(1)) return;
  const SmallNetOptions net{.dtype = at::kDouble};
  const auto model = make_net(net), reference = make_net(net);
  const auto strategy = make_single_device(model, on({gpu(0)}));
  const auto expected = make_single_device(reference, cpu_replicas(1));
  train(*strategy, model, 13);
  train(*expected, reference, 13);
  check_equal_state(*strategy, *expected, 1e-9);
}

TEST_CASE("a step on GPUs copies the weights once to each device but the primary", "[.gpu]") {
  if (not_run(1)) return;
  const SmallNetOptions net;
  DataParallel strategy(make_net(net), twin_of(net), on({gpu(0), pair_of_gpus()[1], gpu(0)}));
  step(strategy, make_batch(12));
  const ReplicationCost before = strategy.replication();
  step(strategy, make_batch(12, 1));
  CHECK(strategy.replication().copies == before.copies + 2);
  CHECK(strategy.replication().bytes - before.bytes == before.bytes / before.copies * 2);
}

TEST_CASE("a replica that fails on a GPU is named and the next step works", "[.gpu]") {
  if (not_run(1)) return;
  SmallNetOptions net;
  bool exhaust = false;
  *net.hook = [&](const at::Tensor& images) {
    if (exhaust && images.size(0) == 3) torch::empty({int64_t{1} << 46}, images.options());
  };
  const auto strategy = make_data_parallel(make_net(net), twin_of(net), on(pair_of_gpus()));
  const Batch batch = make_batch(7);
  const double loss = step(*strategy, batch).loss_sum.item<double>();
  exhaust = true;
  std::string message;
  try {
    step(*strategy, batch);
  } catch (const OutOfMemoryError& error) {
    message = error.what();
  }
  CHECK(message.find("as replica 1") != std::string::npos);
  CHECK(message.find("3 samples") != std::string::npos);
  exhaust = false;
  CHECK(step(*strategy, batch).loss_sum.item<double>() == Approx(loss).epsilon(1e-4));
}

TEST_CASE("autocast reaches every replica on GPUs", "[.gpu]") {
  if (not_run(1)) return;
  const SmallNetOptions net;
  const auto strategy = make_data_parallel(make_net(net), twin_of(net), on(pair_of_gpus()));
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  const at::ScalarType dtype = strategy->evaluate(make_batch(6)).logits_NK.scalar_type();
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  at::autocast::clear_cache();
  CHECK(dtype == at::kHalf);  // Gather of unequal dtypes would throw
}

TEST_CASE("each worker's current device is its replica's", "[.gpu]") {
  if (not_run(2)) return;
  SmallNetOptions net;
  std::mutex mutex;
  std::vector<std::pair<at::DeviceIndex, at::DeviceIndex>> seen;
  *net.hook = [&](const at::Tensor& images) {
    const std::lock_guard<std::mutex> lock(mutex);
    seen.emplace_back(torch::empty({1}, at::kCUDA).device().index(), images.device().index());
  };
  const auto strategy = make_data_parallel(make_net(net), twin_of(net), on({gpu(1), gpu(0)}));
  step(*strategy, make_batch(8));
  step(*strategy, make_batch(5));
  REQUIRE(seen.size() == 4);
  for (const auto& [current, own] : seen) CHECK(current == own);
}

}  // namespace mgtrain::test
