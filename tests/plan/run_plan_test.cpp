#include "plan/run_plan.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "support/fake_plan.h"

using namespace mgtrain;
using namespace mgtrain::test;
using Sizes = std::vector<int64_t>;

namespace {

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("strategy auto is single for one device and dp for several, and says why", "[plan]") {
  const RunPlan one = fake_plan({{"devices.gpus", "cpu"}}, fake_dataset(1000));
  CHECK(one.strategy == StrategyKind::kSingle);
  CHECK(one.strategy_reason == "one device");
  const RunPlan two = fake_plan({{"devices.gpus", "0,1"}}, fake_dataset(1000), fake_inventory(2));
  CHECK(two.strategy == StrategyKind::kDataParallel);
  CHECK(two.strategy_reason == "2 devices in one process");
}

TEST_CASE("dp with one device runs as single and says so; single with several is refused unless they were not named",
          "[plan]") {
  const RunPlan dp = fake_plan({{"devices.gpus", "cpu"}, {"parallel.strategy", "dp"}}, fake_dataset(1000));
  CHECK(dp.strategy == StrategyKind::kSingle);
  CHECK(dp.strategy_reason == "dp was asked for; with one device there is nothing to share");
  const Flags several{{"devices.gpus", "0,1"}, {"parallel.strategy", "single"}};
  CHECK_THROWS_AS(fake_plan(several, fake_dataset(1000), fake_inventory(2)), ConfigError);
  const RunPlan first = fake_plan({{"parallel.strategy", "single"}}, fake_dataset(1000), fake_inventory(4));
  CHECK(first.selection.devices.size() == 1);
  CHECK(first.strategy == StrategyKind::kSingle);
  CHECK(mentions(first.notes, "only cuda:0 of the 4 devices"));
}

TEST_CASE("the global batch is shared by the devices and cut into micro-batches", "[plan]") {
  const Inventory machine = fake_inventory(3);
  const RunPlan plain = fake_plan({{"train.batch", "256"}}, fake_dataset(10000), machine);
  CHECK(plain.device_shares == Sizes{86, 85, 85});
  CHECK(plain.micro_batches == Sizes{256});
  CHECK(plain.accumulate == 1);
  const RunPlan accumulated =
      fake_plan({{"train.batch", "256"}, {"train.accumulate", "4"}}, fake_dataset(10000), machine);
  CHECK(accumulated.accumulate == 4);
  CHECK(accumulated.micro_batches == Sizes{66, 63, 63, 64});
  CHECK(micro_batch_sizes(accumulated, 256) == accumulated.micro_batches);
  CHECK(micro_batch_sizes(accumulated, 16) == Sizes{16});
  const RunPlan micro = fake_plan({{"train.batch", "256"}, {"train.micro_batch", "32"}}, fake_dataset(10000), machine);
  CHECK(micro.accumulate == 3);  // the largest share is 86: three pieces of at most 32 images
  const RunPlan capped = fake_plan({{"train.batch", "6"}, {"train.accumulate", "4"}}, fake_dataset(100), machine);
  CHECK(capped.accumulate == 2);
  CHECK(mentions(capped.warnings, "--accumulate 4: a device's share of --batch 6 makes only 2 pieces"));
}

TEST_CASE("a batch smaller than the number of devices leaves devices without samples, with a warning", "[plan]") {
  const RunPlan plan = fake_plan({{"train.batch", "3"}, {"devices.gpus", "cpu:4"}}, fake_dataset(9));
  CHECK(plan.device_shares == Sizes{1, 1, 1, 0});
  CHECK(mentions(plan.warnings, "1 device of 4 get no samples"));
}

TEST_CASE("steps come from samples, batch, epochs and steps, whichever ends first", "[plan]") {
  const auto steps = [](Flags flags) {
    flags.emplace_back("train.batch", "64");
    const RunPlan plan = fake_plan(flags, fake_dataset(1000));
    return Sizes{plan.steps_per_epoch, plan.total_steps, plan.epochs, plan.last_batch, plan.dropped_samples};
  };
  CHECK(steps({{"train.epochs", "3"}}) == Sizes{16, 48, 3, 40, 0});
  CHECK(steps({{"train.epochs", "3"}, {"data.drop_last", "true"}}) == Sizes{15, 45, 3, 64, 40});
  CHECK(steps({{"train.epochs", "3"}, {"train.steps", "20"}}) == Sizes{16, 20, 2, 40, 0});
  CHECK(steps({{"train.epochs", "3"}, {"train.steps", "500"}}) == Sizes{16, 48, 3, 40, 0});
  CHECK(steps({{"train.steps", "5"}}) == Sizes{16, 5, 1, 40, 0});
  const RunPlan exact = fake_plan({{"train.batch", "50"}}, fake_dataset(1000));
  CHECK(exact.last_batch == 50);
  CHECK(exact.steps_per_epoch == 20);
}

TEST_CASE("--steps beyond the default epochs warns that the epochs end the run", "[plan]") {
  const RunPlan plan = fake_plan({{"train.batch", "100"}, {"train.steps", "5000"}}, fake_dataset(1000));
  CHECK(plan.total_steps == 100);
  CHECK(mentions(plan.warnings, "give --epochs"));
  CHECK_FALSE(mentions(
      fake_plan({{"train.batch", "100"}, {"train.steps", "5000"}, {"train.epochs", "10"}}, fake_dataset(1000)).warnings,
      "give --epochs"));
}

TEST_CASE("dropping the last batch may not drop everything; a batch beyond the data set is one step", "[plan]") {
  CHECK_THROWS_AS(fake_plan({{"train.batch", "200"}, {"data.drop_last", "true"}}, fake_dataset(150)), ConfigError);
  const RunPlan plan = fake_plan({{"train.batch", "200"}}, fake_dataset(150));
  CHECK(plan.steps_per_epoch == 1);
  CHECK(plan.last_batch == 150);
  CHECK(mentions(plan.warnings, "each epoch is one step"));
  CHECK_THROWS_AS(fake_plan({}, fake_dataset(0)), DataError);
}

TEST_CASE("the learning rate in force, the warm-up and a warm-up longer than the run", "[plan]") {
  const RunPlan plan = fake_plan(
      {{"train.batch", "512"}, {"optim.lr_scale", "linear:256"}, {"optim.warmup", "10%"}, {"train.epochs", "10"}},
      fake_dataset(51200));
  CHECK(plan.learning_rate == Approx(0.2).epsilon(1e-15));
  CHECK(plan.warmup_steps == 100);
  CHECK(mentions(fake_plan({{"optim.warmup", "50e"}}, fake_dataset(1000)).warnings, "the rate only rises"));
}

TEST_CASE("freezing counts what trains, and refuses a name that is none", "[plan]") {
  const RunPlan head = fake_plan({{"model.freeze", "conv1,bn1,layer1,layer2,layer3,layer4"}}, fake_dataset(100));
  CHECK(head.trainable_parameters == 512 * 10 + 10);
  CHECK(head.checkpoint_bytes < fake_plan({}, fake_dataset(100)).checkpoint_bytes);
  CHECK_THROWS_WITH(fake_plan({{"model.freeze", "layer"}}, fake_dataset(100)), Catch::Contains("\"layer\""));
  CHECK_THROWS_AS(fake_plan({{"model.freeze", "conv1,bn1,layer1,layer2,layer3,layer4,fc"}}, fake_dataset(100)),
                  ConfigError);
}

TEST_CASE("a checkpoint holds weights, statistics and the optimizer's state", "[plan]") {
  const auto bytes = [](const Flags& flags) { return fake_plan(flags, fake_dataset(100, 32, 3)).checkpoint_bytes; };
  const uint64_t weights = 11'173'962, statistics = 9600, counters = 20 * 8, overhead = 64 * 1024;
  CHECK(bytes({}) == (2 * weights + statistics) * 4 + counters + overhead);
  CHECK(bytes({{"optim.optimizer", "adam"}}) == (3 * weights + statistics) * 4 + counters + overhead);
  CHECK(bytes({{"train.dtype", "float64"}}) == (2 * weights + statistics) * 8 + counters + overhead);
}

TEST_CASE("memory grows with the share, and too little of it is a warning", "[plan]") {
  Inventory machine = fake_inventory(2);
  const RunPlan plan = fake_plan({{"train.batch", "256"}}, fake_dataset(10000), machine);
  REQUIRE(plan.device_bytes.size() == 2);
  CHECK(plan.device_bytes[0] > plan.device_bytes[1]);  // the primary holds the optimizer's state
  CHECK(plan.warnings.empty());
  const RunPlan pieces = fake_plan({{"train.batch", "256"}, {"train.accumulate", "8"}}, fake_dataset(10000), machine);
  CHECK(pieces.device_bytes[0] < plan.device_bytes[0]);
  machine.gpus[1].memory_total = uint64_t{256} << 20;
  CHECK(mentions(fake_plan({{"train.batch", "256"}}, fake_dataset(10000), machine).warnings, "cuda:1 needs about"));
}

TEST_CASE("notes say which BatchNorm statistics count and what CPU replicas leave idle", "[plan]") {
  const RunPlan dp = fake_plan({{"devices.gpus", "cpu:4"}, {"train.batch", "64"}}, fake_dataset(1000));
  CHECK(mentions(dp.notes,
                 "its chunk of the batch (16 images at most); the running statistics are those of the primary"));
  CHECK(mentions(dp.notes, "of 16 cores 12 stay idle"));
  CHECK(fake_plan({{"devices.gpus", "cpu"}, {"train.batch", "50"}}, fake_dataset(1000)).notes.empty());
  CHECK(mentions(fake_plan({{"devices.gpus", "cpu"}, {"train.accumulate", "2"}}, fake_dataset(1000)).notes,
                 "each micro-batch (64 images"));
}

TEST_CASE("the fall-back's warning is among the plan's", "[plan]") {
  const RunPlan plan = fake_plan({{"devices.gpus", "0,1"}, {"train.batch", "256"}}, fake_dataset(10000));
  CHECK(plan.selection.devices.size() == 2);
  CHECK(plan.device_shares == Sizes{128, 128});
  REQUIRE(plan.warnings.size() == 1);
  CHECK_THAT(plan.warnings.front(), Catch::StartsWith("no NVIDIA GPU in this machine"));
}

TEST_CASE("memory format auto is nhwc, and a given one is kept", "[plan]") {
  CHECK(fake_plan({}, fake_dataset(100)).memory_format == "nhwc");
  CHECK(fake_plan({{"train.memory_format", "nchw"}}, fake_dataset(100)).memory_format == "nchw");
}

TEST_CASE("narrow nets run in nchw on the CPU, where oneDNN's nhwc gradients would be wrong", "[plan]") {
  const DatasetInfo data = fake_dataset(100);
  for (const char* width : {"2", "8", "15"}) {
    const RunPlan plan = fake_plan({{"model.width", width}}, data);
    CHECK(plan.memory_format == "nchw");
    CHECK(mentions(plan.notes, "layer2.0.downsample.0"));
    CHECK_THROWS_AS(fake_plan({{"model.width", width}, {"train.memory_format", "nhwc"}}, data), ConfigError);
    // Only oneDNN's float32 kernels are concerned.
    CHECK(fake_plan({{"model.width", width}, {"train.dtype", "float64"}}, data).memory_format == "nhwc");
    CHECK(fake_plan({{"model.width", width}, {"devices.gpus", "1"}}, data, fake_inventory(1)).memory_format == "nhwc");
  }
  CHECK(fake_plan({{"model.width", "16"}}, data).memory_format == "nhwc");
  // A bottleneck's shortcut has four times the channels.
  CHECK(fake_plan({{"model.width", "4"}, {"model.name", "resnet50"}}, data).memory_format == "nhwc");
}

TEST_CASE("ddp: a rank a device, each with optimizer state; one device is a world of one", "[plan]") {
  const DatasetInfo data = fake_dataset(1000);
  const Flags four = {{"devices.gpus", "cpu:4"}, {"train.batch", "64"}};
  Flags ddp = four;
  ddp.emplace_back("parallel.strategy", "ddp");
  const RunPlan ranks = fake_plan(ddp, data), replicas = fake_plan(four, data);
  CHECK(ranks.strategy == StrategyKind::kRanks);
  CHECK(ranks.device_shares == replicas.device_shares);
  CHECK(ranks.device_bytes[0] == replicas.device_bytes[0]);
  CHECK(ranks.device_bytes[1] > replicas.device_bytes[1]);
  CHECK(mentions(ranks.notes, "rank 0, cpu replica 0, and are broadcast before each evaluation"));
  CHECK(fake_plan({{"devices.gpus", "cpu"}, {"parallel.strategy", "ddp"}}, data).strategy == StrategyKind::kRanks);
}

TEST_CASE("sync_bn: the statistics are those of the whole batch, so a rank may have one image", "[plan]") {
  Flags flags = {{"devices.gpus", "cpu:2"}, {"train.batch", "5"}, {"parallel.sync_bn", "true"}};
  const DatasetInfo tiny = fake_dataset(17, 4);  // one value a channel in layer4; the last batch is two images
  CHECK_THROWS_WITH(fake_plan(flags, tiny), Catch::Contains("use --strategy ddp"));
  flags.emplace_back("parallel.strategy", "ddp");
  CHECK(mentions(fake_plan(flags, tiny).notes, "statistics over the global batch (--sync-bn, 5 images at most)"));
  CHECK_THROWS_WITH(fake_plan(flags, fake_dataset(16, 4)), Catch::Contains("no variance"));
  flags.emplace_back("train.accumulate", "2");
  CHECK(mentions(fake_plan(flags, fake_dataset(15, 32)).notes,
                 "statistics over the global micro-batch (--sync-bn, 3 images at most)"));
}

TEST_CASE("sync_bn with one device is what happens anyway, and a note says so", "[plan]") {
  for (const char* strategy : {"auto", "single", "ddp"}) {
    const RunPlan plan = fake_plan(
        {{"devices.gpus", "cpu"}, {"parallel.sync_bn", "true"}, {"parallel.strategy", strategy}}, fake_dataset(100));
    CHECK(mentions(plan.notes, "--sync-bn: with one device its statistics are those of all images anyway"));
  }
}
