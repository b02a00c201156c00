// A device that fails or is full: the error names it, nothing hangs, and the next step is as if nothing had been.
#include "base/error.h"
#include "simulated/sim_training.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

/// The message of the error that a step must throw.
template <typename Error>
std::string step_error(Training& training, const Batch& batch) {
  try {
    step(*training.strategy, batch);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

NamedTensors gradients(Training& training) {
  NamedTensors all;
  for (const auto& [name, parameter] : training.strategy->trainable_parameters())
    all.emplace_back(name, parameter.grad().cpu());
  return all;
}

}  // namespace

TEST_CASE("a fault anywhere in a step of any device names it, and the next step leaves the right gradients",
          "[simulated]") {
  const int devices = GENERATE(1, 2, 4);
  const Batch batch = resnet_batch(8, 0);
  Training training(sim_devices(first_devices(devices)), "sgd");
  step(*training.strategy, batch);
  std::vector<int64_t> forward, whole;
  sim::reset();
  step(*training.strategy, batch);
  for (int i = 0; i < devices; ++i) whole.push_back(sim::operation_count(i));
  const NamedTensors expected = gradients(training);
  sim::reset();
  training.strategy->state_changed();
  training.strategy->evaluate(batch);
  for (int i = 0; i < devices; ++i) forward.push_back(sim::operation_count(i));

  for (int device = 0; device < devices; ++device) {
    const std::string label = "sim:" + std::to_string(device);
    const int64_t count = whole[static_cast<size_t>(device)];
    REQUIRE(count > 2 * forward[static_cast<size_t>(device)]);  // the faults lie in both passes
    bool in_forward = false, in_backward = false;
    for (int64_t nth = 1; nth <= count; nth += 11) {
      sim::fail_at(device, nth);
      const std::string error = step_error<DeviceError>(training, batch);
      CAPTURE(devices, device, nth, error);
      CHECK(says(error, "failure on " + label + " in the "));
      CHECK(says(error, "pass of " + std::to_string(8 / devices) + " samples"));
      in_forward |= says(error, "in the forward pass");
      in_backward |= says(error, "in the backward pass");
    }
    CHECK(in_forward);
    CHECK(in_backward);
    step(*training.strategy, batch);
    CHECK(differing(gradients(training), expected).empty());
  }
}

TEST_CASE("a fault in an evaluation of any device names it, and the next evaluation is right", "[simulated]") {
  const int devices = GENERATE(1, 2);
  const Batch batch = resnet_batch(6, 0);
  Training training(sim_devices(first_devices(devices)), "sgd");
  const at::Tensor expected = training.strategy->evaluate(batch).logits_NK.cpu();
  for (int device = 0; device < devices; ++device) {
    for (const int64_t nth : {3, 40}) {
      CAPTURE(devices, device, nth);
      sim::fail_at(device, nth);
      std::string error;
      try {
        training.strategy->evaluate(batch);
      } catch (const DeviceError& failure) {
        error = failure.what();
      }
      CHECK(says(error, "sim:" + std::to_string(device)));
      CHECK(at::equal(training.strategy->evaluate(batch).logits_NK.cpu(), expected));
    }
  }
}

TEST_CASE("a full device is an error that names it, its share and a smaller batch; two devices hold the batch",
          "[simulated]") {
  const Batch batch = resnet_batch(32, 0);
  int64_t needed = 0, needed_by_half = 0;
  {
    sim::reset();
    const int64_t before = sim::memory(0).live;
    Training training(sim_devices({0}), "sgd");
    step(*training.strategy, batch);
    needed = sim::memory(0).peak - before;
  }
  {
    sim::reset();
    const int64_t before = sim::memory(0).live;
    Training training(sim_devices({0, 1}), "sgd");
    step(*training.strategy, batch);
    needed_by_half = sim::memory(0).peak - before;
  }
  REQUIRE(needed_by_half < needed * 3 / 4);
  const int64_t cap = (needed + needed_by_half) / 2;
  for (int device = 0; device < 2; ++device) sim::set_cap(device, sim::memory(device).live + cap);
  const int64_t before = sim::memory(0).live;
  {
    Training one(sim_devices({0}), "sgd");
    const std::string error = step_error<OutOfMemoryError>(one, batch);
    CHECK(says(error, "out of memory on sim:0"));
    CHECK(says(error, "32 samples (its share of a batch of 32)"));
    CHECK(says(error, "try a batch of 16 at once"));
    CHECK_NOTHROW(step(*one.strategy, resnet_batch(16, 0)));  // what it advises works
  }
  CHECK(sim::memory(0).live == before);
  {
    Training two(sim_devices({0, 1}), "sgd");
    CHECK_NOTHROW(step(*two.strategy, batch));
  }
  // Only the second device is too small.
  sim::set_cap(0, 0);
  sim::set_cap(1, sim::memory(1).live + cap / 2);
  Training two(sim_devices({0, 1}), "sgd");
  const std::string error = step_error<OutOfMemoryError>(two, batch);
  CHECK(says(error, "out of memory on sim:1"));
  CHECK(says(error, "16 samples (its share of a batch of 32)"));
  sim::reset();
}

TEST_CASE("a device too small for the model says so when the model is put there", "[simulated]") {
  const int device = GENERATE(0, 1);
  CAPTURE(device);
  sim::reset();
  const int64_t before = sim::memory(device).live;
  sim::set_cap(device, before + 1000);
  std::string error;
  try {
    make_data_parallel(make_resnet18(), sim_devices({0, 1}));
  } catch (const OutOfMemoryError& failure) {
    error = failure.what();
  }
  sim::reset();
  CHECK(says(error, "sim:" + std::to_string(device) + " during the set-up"));
  CHECK(says(error, "smaller --width"));
  CHECK(sim::memory(device).live == before);
}

}  // namespace mgtrain::test
