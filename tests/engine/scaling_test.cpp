#include "engine/scaling.h"

#include "support/catch.h"

using namespace mgtrain;

TEST_CASE("the speed-up over one device comes from the replicas' own times, after warm-up", "[engine]") {
  ScalingEstimate estimate(2);
  const std::vector<double> slow = {9, 9}, replicas = {1, 1};
  for (int i = 0; i < ScalingEstimate::kWarmUpSteps; ++i) estimate.add(100, 1, slow);
  for (int i = 0; i < ScalingEstimate::kMeasuredSteps; ++i) {
    CHECK_FALSE(estimate.report());
    estimate.add(i == 4 ? 50 : 3, 0.5, replicas);  // one step was disturbed
  }
  const auto report = estimate.report();
  REQUIRE(report);
  CHECK(report->devices == 2);
  CHECK(report->step_seconds == 3.5);
  CHECK(report->one_device_seconds == 6.5);  // forwards 2, backwards 4, update 0.5
  CHECK(report->speedup == Approx(6.5 / 3.5));
  CHECK(report->advice.empty());
}

TEST_CASE("devices that are slower together than one alone get advice", "[engine]") {
  ScalingEstimate estimate(4);
  const std::vector<double> replicas = {1, 1, 1, 1};
  for (int i = 0; i < ScalingEstimate::kWarmUpSteps + ScalingEstimate::kMeasuredSteps; ++i)
    estimate.add(24, 0, replicas);
  REQUIRE(estimate.report());
  CHECK(estimate.report()->speedup == 0.5);
  CHECK(estimate.report()->advice.find("--batch") != std::string::npos);
}

TEST_CASE("without times of every device there is no estimate", "[engine]") {
  ScalingEstimate gpus(2), one(1);
  const std::vector<double> none, single = {1};
  for (int i = 0; i < 50; ++i) {
    gpus.add(1, 1, none);
    one.add(1, 1, single);
  }
  CHECK_FALSE(gpus.report());
  CHECK_FALSE(one.report());
}
