// Known fault 3: after a whole epoch, BatchNorm meets one value a channel and the run crashes. pytorch/pytorch#4534.
#include "base/error.h"
#include "support/catch.h"
#include "support/fake_plan.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

/// 8 x 8 pictures: layer4 has a 1 x 1 map.
RunPlan plan_of(int64_t samples, Flags flags, const std::string& gpus = "cpu", int64_t size = 8) {
  flags.emplace_back("devices.gpus", gpus);
  return fake_plan(flags, fake_dataset(samples, size));
}

}  // namespace

TEST_CASE("issue 3: 65 images in batches of 64 before a 1x1 map are refused at start-up, with the ways out",
          "[issues]") {
  CHECK_THROWS_AS(plan_of(65, {{"train.batch", "64"}}), ConfigError);
  CHECK_THROWS_WITH(plan_of(65, {{"train.batch", "64"}}),
                    Catch::Contains("layer4.0.bn1") && Catch::Contains("--drop-last") && Catch::Contains("--batch 63"));
  CHECK(plan_of(65, {{"train.batch", "63"}}).last_batch == 2);
  CHECK(plan_of(65, {{"train.batch", "64"}, {"data.drop_last", "true"}}).dropped_samples == 1);
  CHECK(plan_of(65, {{"train.batch", "64"}, {"train.steps", "1"}, {"train.epochs", "1"}}).total_steps == 1);
}

TEST_CASE("issue 3: a chunk of one image on one of the devices, or in one micro-batch, is refused too", "[issues]") {
  CHECK_THROWS_AS(plan_of(67, {{"train.batch", "64"}}, "cpu:2"), ConfigError);  // the last 3 are 2 and 1
  CHECK(plan_of(68, {{"train.batch", "64"}}, "cpu:2").last_batch == 4);
  CHECK_THROWS_AS(plan_of(64, {{"train.batch", "4"}}, "cpu:4"), ConfigError);
  CHECK_THROWS_AS(plan_of(64, {{"train.batch", "4"}, {"train.accumulate", "4"}}), ConfigError);
  CHECK_THROWS_AS(plan_of(64, {{"train.batch", "1"}}), ConfigError);
}

TEST_CASE("issue 3: where the maps are larger, a last batch of one trains, with a warning", "[issues]") {
  const RunPlan plan = plan_of(65, {{"train.batch", "64"}}, "cpu", 28);
  CHECK(plan.last_batch == 1);
  REQUIRE(plan.warnings.size() == 1);
  CHECK_THAT(plan.warnings.front(), Catch::Contains("last batch is one image"));
}
