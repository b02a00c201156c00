// Ranks as threads on the CPU: images/s of a whole training step of ResNet18 with N ranks of one thread, with one rank,
// and with the strategy of one device, in turn (A B C A B C), with --sync-bn 1 the same ranks with BatchNorm over all
// of them after each turn; or the time of one exchange of gradients alone. One JSON object a line;
// scripts/bench/ranks.py runs it beside Python's DistributedDataParallel and prints the ratios.
#include <torch/types.h>
#include <torch/utils.h>

#include <barrier>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>

#include "base/allocator.h"
#include "base/clock.h"
#include "comm/process_groups.h"
#include "comm/rank_team.h"
#include "model/make_model.h"
#include "optim/optimizer.h"
#include "parallel/mesh_strategy.h"

namespace {

using namespace mgtrain;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

struct Options {
  int64_t width = 64, batch = 64, ranks = 2, repeats = 5, steps = 2, sync_bn = 0, exchange = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, int64_t*> fields{{"--width", &options.width},      {"--batch", &options.batch},
                                               {"--ranks", &options.ranks},      {"--repeats", &options.repeats},
                                               {"--steps", &options.steps},      {"--sync-bn", &options.sync_bn},
                                               {"--exchange", &options.exchange}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto field = fields.find(argv[i]);
    if (field == fields.end() || (*field->second = std::atoll(argv[i + 1])) < 1) {
      std::cerr << "usage: ranks_bench [--width N] [--batch PER_RANK] [--ranks N] [--repeats N] [--steps N] "
                   "[--sync-bn 1], or "
                   "ranks_bench --exchange ELEMENTS [--ranks N] [--repeats N]\n";
      std::exit(2);
    }
  }
  return options;
}

Batch random_batch(int64_t count) {
  Batch batch{.images = torch::randn({count, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast),
              .labels = torch::randint(0, 10, {count}, at::kLong),
              .samples = std::vector<int64_t>(static_cast<size_t>(count))};
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  return batch;
}

std::shared_ptr<ResNet> build(const Options& options) {
  const ResNetSpec spec = make_resnet_spec("resnet18", options.width, "cifar", 3, 32, 32, 10);
  return make_model(spec, ModelConfig{.width = options.width}, /*seed=*/1, at::kFloat, /*channels_last=*/true);
}

/// A strategy with its optimizer.
struct Side {
  std::unique_ptr<Strategy> strategy;
  Optimizer optimizer;

  explicit Side(std::unique_ptr<Strategy> made)
      : strategy(std::move(made)), optimizer(OptimConfig{}, strategy->trainable_parameters()) {}

  /// Seconds of `steps` steps on `own` samples of `all`.
  double seconds(int64_t steps, const Batch& own, int64_t all) {
    const SystemClock clock;
    const double start = clock.monotonic_seconds();
    for (int64_t i = 0; i < steps; ++i) {
      strategy->forward_backward({&own, 1}, all);
      optimizer.step(0.01, {});
    }
    return clock.monotonic_seconds() - start;
  }
};

/// A line on stdin starts each measured repeat, so that another program can have its turn in between; without a stdin
/// they follow each other.
void wait_for_turn() {
  std::string line;
  std::getline(std::cin, line);
}

const StrategyOptions kOneThread{.devices = {at::kCPU}, .threads = 1, .channels_last = true};

void compare_steps(const Options& options) {
  const auto ranks = static_cast<int>(options.ranks);
  const Batch batch = random_batch(options.batch);
  Side single(make_single_device(build(options), kOneThread));
  const auto alone = make_in_process_world(1, std::chrono::seconds(600));
  Side world_of_one(
      std::make_unique<MeshStrategy>(build(options), kOneThread, MeshOptions{.group = alone->process_group(0)}));
  std::vector<std::shared_ptr<ResNet>> models, synced_models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(build(options));
  for (int rank = 0; rank < ranks && options.sync_bn > 0; ++rank) synced_models.push_back(build(options));
  const auto world = make_in_process_world(ranks, std::chrono::seconds(600));
  std::barrier together(ranks);
  run_ranks(
      *world->comm(),
      [&](int rank) {
        at::set_num_threads(1);
        const Group group = world->process_group(rank);
        const auto at = static_cast<size_t>(rank);
        Side own(std::make_unique<MeshStrategy>(models[at], kOneThread, MeshOptions{.group = group}));
        std::optional<Side> synced;
        if (options.sync_bn > 0) {
          synced.emplace(std::make_unique<MeshStrategy>(synced_models[at], kOneThread,
                                                        MeshOptions{.group = group, .sync_batch_norm = true}));
        }
        const double images = static_cast<double>(options.batch * options.steps);
        for (int64_t repeat = -1; repeat < options.repeats; ++repeat) {  // the first one warms up
          nlohmann::ordered_json line;
          if (rank == 0) {
            if (repeat >= 0) wait_for_turn();
            line["single_images_per_second"] = images / single.seconds(options.steps, batch, options.batch);
            line["one_rank_images_per_second"] = images / world_of_one.seconds(options.steps, batch, options.batch);
          }
          together.arrive_and_wait();
          const double seconds = own.seconds(options.steps, batch, options.batch * ranks);
          together.arrive_and_wait();
          line["ranks_images_per_second"] = images * ranks / seconds;
          if (synced) {
            line["sync_bn_images_per_second"] =
                images * ranks / synced->seconds(options.steps, batch, options.batch * ranks);
            together.arrive_and_wait();
          }
          if (rank == 0 && repeat >= 0) std::cout << line << std::endl;
        }
      },
      std::chrono::seconds(60), [](const auto&, const auto&) { std::abort(); });
}

void time_exchange(const Options& options) {
  const auto ranks = static_cast<int>(options.ranks);
  const auto world = make_in_process_world(ranks, std::chrono::seconds(600));
  run_ranks(
      *world->comm(),
      [&](int rank) {
        at::set_num_threads(1);
        const Group group = world->process_group(rank);
        std::vector<at::Tensor> gradient = {torch::ones({options.exchange})};
        const SystemClock clock;
        for (int64_t repeat = -2; repeat < options.repeats; ++repeat) {
          if (rank == 0 && repeat >= 0) wait_for_turn();
          group->barrier()->wait();
          const double start = clock.monotonic_seconds();
          group->allreduce(gradient)->wait();
          const double seconds = clock.monotonic_seconds() - start;
          if (rank == 0 && repeat >= 0) std::cout << nlohmann::ordered_json{{"exchange_seconds", seconds}} << std::endl;
        }
      },
      std::chrono::seconds(60), [](const auto&, const auto&) { std::abort(); });
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  tune_allocator();
  at::set_num_threads(1);
  if (options.exchange > 0) {
    time_exchange(options);
  } else {
    compare_steps(options);
  }
}
