// ResNet18 trained on simulated devices, and what the same training leaves on the CPU.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/make_model.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "parallel/chunk_reference.h"
#include "parallel/small_net.h"
#include "parallel/strategy.h"
#include "support/sim_device.h"

namespace mgtrain::test {

/// The devices of these numbers, the first one the primary.
inline StrategyOptions sim_devices(const std::vector<int>& numbers, bool channels_last = false) {
  StrategyOptions options{.channels_last = channels_last};
  for (const int number : numbers) {
    options.devices.push_back(sim::device(number));
    options.device_labels.push_back("sim:" + std::to_string(number));
  }
  return options;
}

inline std::vector<int> first_devices(int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

/// Narrow enough to be quick; in nhwc wide enough for oneDNN (docs/decisions/007).
inline std::shared_ptr<ResNet> make_resnet18(bool channels_last = false, at::ScalarType dtype = at::kFloat) {
  return make_model(make_resnet_spec("resnet18", channels_last ? 16 : 8, "cifar", 3, 16, 16, 5), {}, /*seed=*/7, dtype,
                    channels_last);
}

inline Batch resnet_batch(int64_t count, uint64_t seed, at::ScalarType dtype = at::kFloat) {
  Batch batch = make_batch(count, seed, dtype);
  torch::manual_seed(seed);
  batch.images = torch::randn({count, 3, 16, 16}, dtype);
  return batch;
}

inline std::unique_ptr<Strategy> make_strategy_on(const std::shared_ptr<ResNet>& model,
                                                  const StrategyOptions& options) {
  return options.devices.size() == 1 ? make_single_device(model, options) : make_data_parallel(model, options);
}

inline OptimConfig optim_config(const std::string& name) {
  OptimConfig config;
  config.optimizer = name;
  return config;
}

constexpr double kLearningRate = 0.05, kClip = 1;

/// Clip and update with the gradients that are there. Sums of a norm depend on threads, so there is one.
inline void update(const NamedTensors& parameters, Optimizer& optimizer) {
  const ThreadCountGuard one(1);
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters) gradients.push_back(parameter.grad());
  clip_gradients(gradients, gradient_norm(gradients), kClip);
  optimizer.step(kLearningRate, {});
}

/// A model in training on devices.
struct Training {
  Training(const StrategyOptions& options, const std::string& optimizer_name, at::ScalarType dtype = at::kFloat)
      : strategy(make_strategy_on(make_resnet18(options.channels_last, dtype), options)),
        optimizer(optim_config(optimizer_name), strategy->trainable_parameters()),
        dtype(dtype) {}

  /// Updates number `from` + 1 to `to`, with the batches of these numbers.
  void train(int from, int to, int64_t batch_size) {
    for (int i = from; i < to; ++i) {
      step(*strategy, resnet_batch(batch_size, static_cast<uint64_t>(i), dtype));
      update(strategy->trainable_parameters(), optimizer);
    }
  }

  /// All that a checkpoint holds, on the host.
  NamedTensors state() {
    NamedTensors all;
    for (const auto& [name, tensor] : strategy->full_state()) all.emplace_back(name, tensor.detach().cpu().clone());
    for (const auto& [name, tensor] : optimizer.state()) all.emplace_back(name, tensor.detach().cpu().clone());
    return all;
  }

  std::unique_ptr<Strategy> strategy;
  Optimizer optimizer;
  at::ScalarType dtype;
};

/// One model on the CPU that runs the chunks of `replicas` devices in turn, on one thread, as simulated devices do.
struct Reference {
  Reference(const StrategyOptions& like, const std::string& optimizer_name, at::ScalarType dtype = at::kFloat)
      : model(make_resnet18(like.channels_last, dtype)),
        strategy(make_single_device(model, cpu_replicas(1, like.channels_last))),
        optimizer(optim_config(optimizer_name), strategy->trainable_parameters()),
        replicas(like.devices.size()),
        channels_last(like.channels_last),
        dtype(dtype) {}

  void train(int from, int to, int64_t batch_size) {
    for (int i = from; i < to; ++i) {
      reference_gradients(*model, resnet_batch(batch_size, static_cast<uint64_t>(i), dtype), replicas, channels_last,
                          /*backward_threads=*/1);
      update(strategy->trainable_parameters(), optimizer);
    }
  }

  NamedTensors state() {
    NamedTensors all = strategy->full_state();
    for (const auto& named : optimizer.state()) all.push_back(named);
    return all;
  }

  std::shared_ptr<ResNet> model;
  std::unique_ptr<Strategy> strategy;
  Optimizer optimizer;
  size_t replicas;
  bool channels_last;
  at::ScalarType dtype;
};

/// Names of the tensors whose bits differ, or whose names do.
inline std::vector<std::string> differing(const NamedTensors& actual, const NamedTensors& expected) {
  if (actual.size() != expected.size()) return {"number of tensors"};
  std::vector<std::string> names;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].first != expected[i].first || !at::equal(actual[i].second, expected[i].second))
      names.push_back(actual[i].first);
  }
  return names;
}

}  // namespace mgtrain::test
