// Data parallelism on the CPU against one replica with one thread: images/s of a whole training step of ResNet18 and
// replication's share of a step, measured in turn (A B A B). One JSON object a line; scripts/bench/data_parallel.py
// runs it and prints the ratios.
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/clock.h"
#include "model/make_model.h"
#include "optim/optimizer.h"
#include "parallel/data_parallel.h"

namespace {

using namespace mgtrain;

struct Options {
  int64_t width = 64, batch = 64, replicas = 2, repeats = 5, steps = 2;
};

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, int64_t*> fields{{"--width", &options.width},
                                               {"--batch", &options.batch},
                                               {"--replicas", &options.replicas},
                                               {"--repeats", &options.repeats},
                                               {"--steps", &options.steps}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto field = fields.find(argv[i]);
    if (field == fields.end() || (*field->second = std::atoll(argv[i + 1])) < 1) {
      std::cerr << "usage: data_parallel_bench [--width N] [--batch PER_REPLICA] [--replicas N] [--repeats N] "
                   "[--steps N]\n";
      std::exit(2);
    }
  }
  return options;
}

std::shared_ptr<ResNet> build(const Options& options) {
  const ResNetSpec spec = make_resnet_spec("resnet18", options.width, "cifar", 3, 32, 32, 10);
  return make_model(spec, ModelConfig{.width = options.width}, /*seed=*/1, at::kFloat, /*channels_last=*/true);
}

Batch random_batch(int64_t count) {
  Batch batch{.images = torch::randn({count, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast),
              .labels = torch::randint(0, 10, {count}, at::kLong),
              .samples = std::vector<int64_t>(static_cast<size_t>(count))};
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  return batch;
}

/// One side of the comparison: a strategy with its optimizer and data.
struct Side {
  std::unique_ptr<Strategy> strategy;
  Optimizer optimizer;
  Batch batch;

  Side(std::unique_ptr<Strategy> made, int64_t count)
      : strategy(std::move(made)),
        optimizer(OptimConfig{}, strategy->trainable_parameters()),
        batch(random_batch(count)) {}

  void step() {
    strategy->forward_backward({&batch, 1}, batch.count());
    optimizer.step(0.01, {});
  }

  double images_per_second(int64_t steps) {
    const SystemClock clock;
    const double start = clock.monotonic_seconds();
    for (int64_t i = 0; i < steps; ++i) step();
    return static_cast<double>(steps * batch.count()) / (clock.monotonic_seconds() - start);
  }
};

StrategyOptions on_cpu(int64_t replicas) {
  return {.devices = std::vector<at::Device>(static_cast<size_t>(replicas), at::Device(at::kCPU)),
          .threads = 1,
          .channels_last = true};
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  at::set_num_threads(1);
  Side one(make_single_device(build(options), on_cpu(1)), options.batch);
  const auto model = build(options);
  auto made = std::make_unique<DataParallel>(
      model, [spec = model->spec()] { return std::make_shared<ResNet>(spec); }, on_cpu(options.replicas));
  const DataParallel& replicas = *made;
  Side many(std::move(made), options.batch * options.replicas);
  for (int i = 0; i < 2; ++i) {
    one.step();
    many.step();
  }
  for (int64_t repeat = 0; repeat < options.repeats; ++repeat) {
    const double single = one.images_per_second(options.steps);
    const ReplicationCost before = replicas.replication();
    const double parallel = many.images_per_second(options.steps);
    const ReplicationCost after = replicas.replication();
    const double step_seconds = static_cast<double>(many.batch.count()) / parallel;
    const StepTimes times = replicas.last_times();
    std::cout << nlohmann::ordered_json{{"single_images_per_second", single},
                                        {"parallel_images_per_second", parallel},
                                        {"speed_up", parallel / single},
                                        {"replication_share", (after.seconds - before.seconds) /
                                                                  static_cast<double>(options.steps) / step_seconds},
                                        {"copies_per_step", (after.copies - before.copies) / options.steps},
                                        {"bytes_per_step", (after.bytes - before.bytes) / options.steps},
                                        {"step_seconds", step_seconds},
                                        {"forward_seconds", times.forward_seconds},
                                        {"backward_seconds", times.backward_seconds}}
              << std::endl;
  }
}
