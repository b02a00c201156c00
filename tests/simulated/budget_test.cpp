// What a step may move, wait for and keep: exact numbers a strategy.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "engine/device_scalars.h"
#include "simulated/sim_training.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

constexpr int64_t kImageBytes = int64_t{3} * 16 * 16 * 4, kLogitBytes = 5 * 4, kLabelBytes = 8;

/// A whole update as the trainer does it.
void full_step(Training& training, const Batch& batch) {
  const StepSums sums = step(*training.strategy, batch);
  update(training.strategy->trainable_parameters(), training.optimizer);
  CHECK(DeviceScalars({sums.loss_sum, sums.top1}).read().front() > 0);
}

int64_t bytes_of(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

/// What the copy of a replica's refresh holds: each tensor starts at a multiple of 64 bytes.
int64_t flat_bytes(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += (static_cast<int64_t>(tensor.nbytes()) + 63) / 64 * 64;
  return bytes;
}

using Routes = std::map<std::string, sim::Copies>;

}  // namespace

TEST_CASE("a step on one device copies images and labels in and two numbers out, and waits once for them",
          "[simulated]") {
  Training training(sim_devices({1}), "sgd");
  const Batch batch = resnet_batch(6, 0);
  full_step(training, batch);
  sim::reset();
  full_step(training, batch);
  CHECK(sim::copies() == Routes{{"cpu > sim:1", {2, 6 * (kImageBytes + kLabelBytes)}}, {"sim:1 > cpu", {1, 2 * 8}}});
  CHECK(sim::waits(1).reads == 0);
  CHECK(sim::waits(1).events == 1);
  CHECK(sim::waits(1).device == 0);
}

TEST_CASE("a data-parallel step copies each chunk once, the weights once a replica, and each gradient once",
          "[simulated]") {
  const int devices = GENERATE(2, 4);
  CAPTURE(devices);
  Training training(sim_devices(first_devices(devices)), "sgd");
  const int64_t share = 3;
  const Batch batch = resnet_batch(share * devices, 0);
  full_step(training, batch);
  sim::reset();
  full_step(training, batch);
  const NamedTensors weights = training.strategy->trainable_parameters();
  REQUIRE(weights.size() == 62);
  Routes expected = {{"cpu > sim:0", {2, share * kImageBytes + batch.count() * kLabelBytes}},
                     {"sim:0 > cpu", {1, 2 * 8}}};
  for (int i = 1; i < devices; ++i) {
    const std::string other = "sim:" + std::to_string(i);
    expected["cpu > " + other] = {1, share * kImageBytes};
    // Weights and statistics in one copy; the gradient of the logits.
    expected["sim:0 > " + other] = {2, flat_bytes(training.strategy->full_state()) + share * kLogitBytes};
    // Logits; a gradient a parameter.
    expected[other + " > sim:0"] = {1 + 62, share * kLogitBytes + bytes_of(weights)};
  }
  CHECK(sim::copies() == expected);
  for (int i = 0; i < devices; ++i) {
    CAPTURE(i);
    CHECK(sim::waits(i).reads == 0);
    CHECK(sim::waits(i).events == (i == 0 ? 1 : 0));
    CHECK(sim::waits(i).device == 0);
  }
}

TEST_CASE("micro-batches refresh the replicas once a micro-batch, and an evaluation once in all", "[simulated]") {
  Training training(sim_devices({0, 1}), "sgd");
  const Batch first = resnet_batch(4, 1), second = resnet_batch(4, 2);
  training.train(0, 1, 8);
  sim::reset();
  training.strategy->evaluate(first);
  training.strategy->evaluate(second);
  const int64_t state = flat_bytes(training.strategy->full_state());
  CHECK(sim::copies() == Routes{{"cpu > sim:0", {4, 4 * kImageBytes + 8 * kLabelBytes}},
                                {"cpu > sim:1", {2, 4 * kImageBytes}},
                                {"sim:0 > sim:1", {1, state}},
                                {"sim:1 > sim:0", {2, 4 * kLogitBytes}}});
}

TEST_CASE("when a run's parts are gone no device holds a byte", "[simulated]") {
  const int devices = GENERATE(1, 2, 4);
  CAPTURE(devices);
  std::vector<int64_t> before;
  for (int i = 0; i < 4; ++i) before.push_back(sim::memory(i).live);
  {
    Training training(sim_devices(first_devices(devices)), "adamw");
    training.train(0, 2, 8);
    training.strategy->evaluate(resnet_batch(5, 9));
    for (int i = 0; i < devices; ++i) CHECK(sim::memory(i).live > before[static_cast<size_t>(i)] + 100'000);
  }
  for (int i = 0; i < 4; ++i) CHECK(sim::memory(i).live == before[static_cast<size_t>(i)]);
}

TEST_CASE("replicas other than the primary keep no optimizer state and no gradients", "[simulated]") {
  sim::reset();
  Training training(sim_devices({0, 1}), "adamw");
  const int64_t built = sim::memory(1).live;
  training.train(0, 2, 8);
  CHECK(sim::memory(1).live == built);
  CHECK(built < flat_bytes(training.strategy->full_state()) + 64);
}

TEST_CASE("each device runs its backward pass on a thread of its own", "[simulated]") {
  const int devices = GENERATE(2, 4);
  CAPTURE(devices);
  Training training(sim_devices(first_devices(devices)), "sgd");
  sim::reset();
  sim::record_operations(true);
  step(*training.strategy, resnet_batch(8, 0));
  sim::record_operations(false);
  std::set<std::thread::id> all{std::this_thread::get_id()};
  for (int i = 0; i < devices; ++i) {
    CAPTURE(i);
    std::set<std::thread::id> threads;
    for (const sim::Operation& operation : sim::operations(i))
      if (operation.name == "aten::convolution_backward") threads.insert(operation.thread);
    REQUIRE(threads.size() == 1);
    CHECK(all.insert(*threads.begin()).second);  // no other device's, and not the caller's
  }
}

TEST_CASE("two devices run their forward passes on different threads", "[simulated]") {
  Training training(sim_devices({0, 1}), "sgd");
  sim::reset();
  sim::record_operations(true);
  training.strategy->evaluate(resnet_batch(8, 0));
  sim::record_operations(false);
  std::vector<std::set<std::thread::id>> threads(2);
  for (int i = 0; i < 2; ++i)
    for (const sim::Operation& operation : sim::operations(i))
      if (operation.name == "aten::convolution") threads[static_cast<size_t>(i)].insert(operation.thread);
  REQUIRE(threads[0].size() == 1);
  REQUIRE(threads[1].size() == 1);
  CHECK(threads[0] != threads[1]);
}

// Not a bound: a figure that a loaded machine must not turn into a failure.
TEST_CASE("what a step on a simulated device takes against the CPU is printed", "[simulated]") {
  const ThreadCountGuard one(1);
  Training simulated(sim_devices({0}), "sgd"), cpu(cpu_replicas(1), "sgd");
  const Batch batch = resnet_batch(16, 0);
  const auto seconds = [&batch](Training& training) {
    const auto start = std::chrono::steady_clock::now();
    full_step(training, batch);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> ratios;
  for (int i = 0; i < 41; ++i) ratios.push_back(seconds(simulated) / seconds(cpu));
  std::nth_element(ratios.begin(), ratios.begin() + 20, ratios.end());
  WARN("ResNet18 of width 8, 16 images of 16 x 16, one thread: a step on sim:0 takes " << ratios[20]
                                                                                       << " times that of the CPU");
  CHECK(ratios[20] > 0);
}

}  // namespace mgtrain::test
