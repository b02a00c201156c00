// Ranks on simulated devices: the numbers of ranks on the CPU, what a step moves, and what happens when one fails.
#include <array>
#include <barrier>

#include "comm/in_process_backend.h"
#include "engine/device_scalars.h"
#include "parallel/mesh_strategy.h"
#include "simulated/sim_training.h"
#include "support/catch.h"
#include "support/counting_group.h"
#include "support/run_ranks.h"

namespace mgtrain::test {
namespace {

void on_sim_ranks(int ranks, const std::function<void(int rank, const Group& group)>& work) {
  on_ranks(ranks, work, c10::DeviceType::PrivateUse1);
}

/// The part of a batch that a rank gets.
Batch part_of(const Batch& batch, int64_t rank, int64_t ranks) {
  const ShareOfRank share = share_of_rank(batch.count(), rank, ranks);
  return {.images = batch.images.narrow(0, share.first, share.count),
          .labels = batch.labels.narrow(0, share.first, share.count),
          .samples = {batch.samples.begin() + share.first, batch.samples.begin() + share.first + share.count}};
}

/// One rank's device: simulated, or the CPU for the comparison.
StrategyOptions device_of_rank(int rank, bool simulated) { return simulated ? sim_devices({rank}) : cpu_replicas(1); }

using Models = std::vector<std::shared_ptr<ResNet>>;

Models models_for(int ranks, at::ScalarType dtype = at::kFloat) {
  Models models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(make_resnet18(false, dtype));
  return models;
}

/// Trains on ranks; calls `at_end(rank, strategy, optimizer)` on each.
void train_ranks(int ranks, bool simulated, int steps, int64_t batch_size,
                 const std::function<void(int rank, Strategy& strategy, Optimizer& optimizer)>& at_end,
                 bool sync_batch_norm = false, at::ScalarType dtype = at::kFloat) {
  const Models models = models_for(ranks, dtype);
  std::vector<Batch> batches;  // drawn here: the generator is the process's
  for (int step = 0; step < steps; ++step)
    batches.push_back(resnet_batch(batch_size, static_cast<uint64_t>(step), dtype));
  on_ranks(
      ranks,
      [&](int rank, const Group& group) {
        at::set_num_threads(1);
        MeshStrategy strategy(models[static_cast<size_t>(rank)], device_of_rank(rank, simulated),
                              {.group = group, .sync_batch_norm = sync_batch_norm});
        Optimizer optimizer(optim_config("sgd"), strategy.trainable_parameters());
        for (const Batch& batch : batches) {
          const Batch own = part_of(batch, rank, ranks);
          strategy.forward_backward({&own, 1}, batch_size);
          update(strategy.trainable_parameters(), optimizer);
        }
        at_end(rank, strategy, optimizer);
      },
      simulated ? c10::DeviceType::PrivateUse1 : c10::DeviceType::CPU);
}

NamedTensors state_of(int ranks, bool simulated, int64_t batch_size, bool sync_batch_norm = false,
                      at::ScalarType dtype = at::kFloat) {
  std::vector<NamedTensors> states(static_cast<size_t>(ranks));
  const auto keep = [&](int rank, Strategy& strategy, Optimizer& optimizer) {
    strategy.prepare_evaluation();
    NamedTensors& state = states[static_cast<size_t>(rank)];
    for (const auto& [name, tensor] : strategy.full_state()) state.emplace_back(name, tensor.detach().cpu().clone());
    for (const auto& [name, tensor] : optimizer.state()) state.emplace_back(name, tensor.detach().cpu().clone());
  };
  train_ranks(ranks, simulated, 3, batch_size, keep, sync_batch_norm, dtype);
  for (const NamedTensors& state : states) CHECK(differing(state, states[0]).empty());
  return states[0];
}

int64_t bytes_of(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

TEST_CASE("ranks on simulated devices leave the bits of ranks on the CPU", "[simulated]") {
  const int ranks = GENERATE(2, 4);
  const int64_t batch_size = GENERATE(12, 3);  // of four ranks one has none
  const bool sync_batch_norm = GENERATE(false, true);
  CAPTURE(ranks, batch_size, sync_batch_norm);
  CHECK(
      differing(state_of(ranks, true, batch_size, sync_batch_norm), state_of(ranks, false, batch_size, sync_batch_norm))
          .empty());
}

TEST_CASE("ranks on simulated devices that normalise together leave one device's weights and statistics, in fp64",
          "[simulated]") {
  const int ranks = GENERATE(2, 4);
  const int64_t batch_size = GENERATE(12, 3);
  CAPTURE(ranks, batch_size);
  const NamedTensors actual = state_of(ranks, true, batch_size, true, at::kDouble);
  Training one(cpu_replicas(1), "sgd", at::kDouble);
  one.train(0, 3, batch_size);
  const NamedTensors expected = one.state();
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO(actual[i].first);
    CHECK(relative_difference(actual[i].second, expected[i].second) < 1e-9);  // sums in another order
  }
}

TEST_CASE(
    "a step of ranks that normalise together has two collectives a layer more, on each rank's own device, and "
    "waits for none",
    "[simulated]") {
  constexpr int kRanks = 2, kNorms = 20;  // of ResNet18
  const Models models = models_for(kRanks);
  const Batch batch = resnet_batch(3, 0);
  std::array<std::pair<int, int>, kRanks> collectives;
  int64_t reads = 0;
  std::map<std::string, sim::Copies> copies;
  std::barrier together(kRanks);
  on_sim_ranks(kRanks, [&](int rank, const Group& group) {
    const auto at = static_cast<size_t>(rank);
    MeshStrategy strategy(models[at], sim_devices({rank}), {.group = group, .sync_batch_norm = true});
    const auto counting = c10::make_intrusive<CountingGroup>(group);
    models[at]->set_norm_group(counting);
    const Batch own = part_of(batch, rank, kRanks);
    together.arrive_and_wait();
    if (rank == 0) sim::reset();
    together.arrive_and_wait();
    strategy.forward_backward({&own, 1}, batch.count());
    together.arrive_and_wait();
    collectives[at] = {counting->gathers, counting->reductions};
    if (rank == 0) {
      for (int i = 0; i < kRanks; ++i) reads += sim::waits(i).reads;
      copies = sim::copies();
    }
    together.arrive_and_wait();
  });
  for (const auto& counted : collectives) CHECK(counted == std::pair(kNorms, kNorms));
  CHECK(reads == 0);
  for (const auto& [route, counted] : copies) {
    INFO(route);
    if (route.starts_with("cpu > ")) {
      CHECK(counted.count == 2);  // images, labels
    } else {
      CHECK(route.find("cpu") == std::string::npos);
    }
  }
}

TEST_CASE("25 runs of ranks leave the same bits", "[simulated]") {
  const NamedTensors first = state_of(2, true, 7);
  for (int run = 0; run < 24; ++run) {
    CAPTURE(run);
    CHECK(differing(state_of(2, true, 7), first).empty());
  }
}

TEST_CASE("a step of ranks moves each gradient's slices once each way, and nothing between devices besides",
          "[simulated]") {
  const int ranks = GENERATE(2, 4);
  CAPTURE(ranks);
  int64_t gradients = 0;
  std::map<std::string, sim::Copies> copies;
  int64_t reads = 0;
  const Models models = models_for(ranks);
  const Batch batch = resnet_batch(3 * ranks, 0);
  std::barrier together(ranks);
  on_sim_ranks(ranks, [&](int rank, const Group& group) {
    MeshStrategy strategy(models[static_cast<size_t>(rank)], sim_devices({rank}), {.group = group});
    Optimizer optimizer(optim_config("sgd"), strategy.trainable_parameters());
    const Batch own = part_of(batch, rank, ranks);
    const auto step = [&] {
      strategy.forward_backward({&own, 1}, batch.count());
      update(strategy.trainable_parameters(), optimizer);
    };
    step();
    step();  // the buckets are rebuilt in it
    together.arrive_and_wait();
    if (rank == 0) sim::reset();
    together.arrive_and_wait();
    step();
    together.arrive_and_wait();
    if (rank == 0) {
      copies = sim::copies();
      for (int i = 0; i < ranks; ++i) reads += sim::waits(i).reads;
      gradients = bytes_of(strategy.trainable_parameters());
    }
    together.arrive_and_wait();
  });
  CHECK(reads == 0);
  const int64_t image_bytes = int64_t{3} * 16 * 16 * 4;
  int64_t between = 0;
  for (const auto& [route, counted] : copies) {
    INFO(route);
    if (route.starts_with("cpu > ")) {
      CHECK(counted == sim::Copies{2, 3 * (image_bytes + 8)});  // images, labels
    } else {
      CHECK(route.find("cpu") == std::string::npos);
      between += counted.bytes;
    }
  }
  // Each rank reads the others' part of its own slice, and their finished slices: 2 (n - 1) / n of the bytes a rank.
  CHECK(between == 2 * (ranks - 1) * gradients);
}

TEST_CASE("each rank's backward pass runs on its device's thread, and no byte is left", "[simulated]") {
  const bool sync_batch_norm = GENERATE(false, true);
  std::vector<int64_t> before;
  for (int i = 0; i < 2; ++i) before.push_back(sim::memory(i).live);
  sim::reset();
  sim::record_operations(true);
  train_ranks(
      2, true, 1, 4, [](int, Strategy&, Optimizer&) {}, sync_batch_norm);
  sim::record_operations(false);
  std::set<std::thread::id> all;
  for (int i = 0; i < 2; ++i) {
    std::set<std::thread::id> threads;
    for (const sim::Operation& operation : sim::operations(i))
      if (operation.name == "aten::convolution_backward") threads.insert(operation.thread);
    REQUIRE(threads.size() == 1);
    CHECK(all.insert(*threads.begin()).second);
    CHECK(sim::memory(i).live == before[static_cast<size_t>(i)]);
  }
}

TEST_CASE("a collective whose rank has another current device than its tensors is refused on all ranks",
          "[simulated]") {
  std::vector<std::string> errors(2);
  try {
    on_sim_ranks(2, [&](int rank, const Group& group) {
      std::vector<at::Tensor> tensors = {at::ones({4}).to(sim::device(rank))};
      try {
        group->allreduce(tensors)->wait();  // no guard: the current device of both threads is sim:0
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
        throw;
      }
    });
  } catch (const Error&) {
  }
  for (const std::string& error : errors)
    CHECK(error.find("its current device is sim:0 and its tensor on sim:1") != std::string::npos);
}

TEST_CASE("two ranks on one device are refused", "[simulated]") {
  CHECK_THROWS_WITH(on_sim_ranks(2,
                                 [](int, const Group& group) {
                                   std::vector<at::Tensor> tensors = {at::ones({4}).to(sim::device(0))};
                                   group->allreduce(tensors)->wait();
                                 }),
                    Catch::Contains("both on sim:0"));
}

TEST_CASE("a fault in forward or backward of any rank's device ends all ranks, naming it; the next run is clean",
          "[simulated]") {
  const NamedTensors expected = state_of(2, true, 8);
  for (int device = 0; device < 2; ++device) {
    for (const int64_t nth : {400, 480, 560, 640, 720}) {
      sim::reset();
      sim::fail_at(device, nth);
      std::string error;
      try {
        train_ranks(2, true, 2, 8, [](int, Strategy&, Optimizer&) {});
      } catch (const Error& failure) {
        error = failure.what();
        CHECK(failure.code() == ExitCode::kDevice);
      } catch (const c10::AcceleratorError& failure) {  // in the optimizer, whose errors the trainer names
        error = failure.what_without_backtrace();
      }
      CAPTURE(device, nth, error);
      CHECK(error.find("sim:" + std::to_string(device)) != std::string::npos);
    }
  }
  sim::reset();
  CHECK(differing(state_of(2, true, 8), expected).empty());
}

}  // namespace mgtrain::test
