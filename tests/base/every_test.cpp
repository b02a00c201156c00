#include "base/every.h"

#include <vector>

#include "base/error.h"
#include "support/catch.h"

using mgtrain::ConfigError;
using mgtrain::Every;
using mgtrain::parse_every;
using mgtrain::Schedule;
using mgtrain::to_steps;
using Unit = mgtrain::Every::Unit;

namespace {

std::vector<int64_t> due_steps(Schedule schedule, int64_t first, int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = first; step <= last; ++step) {
    if (schedule.due(step, 0)) steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST_CASE("a period is read with its unit", "[base]") {
  CHECK(parse_every("100") == Every{100, Unit::kSteps});
  CHECK(parse_every("100s") == Every{100, Unit::kSteps});
  CHECK(parse_every("1e") == Every{1, Unit::kEpochs});
  CHECK(parse_every("0.5e") == Every{0.5, Unit::kEpochs});
  CHECK(parse_every("10m") == Every{10, Unit::kMinutes});
  CHECK(parse_every("15%") == Every{15, Unit::kPercent});
  CHECK(parse_every("0").never());
  CHECK(parse_every("0e").never());
}

TEST_CASE("what is not a period is refused with the accepted forms", "[base]") {
  for (const char* text : {"", "e", "-1", "-0", "1.5", "1.5s", "101%", "1e5", "10x", "1 e", " 1", "1,5e", "nan", "inf",
                           "infe", "1ee", "0x10", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_every(text), ConfigError);
  }
  CHECK_THROWS_WITH(parse_every("10x"), Catch::Matchers::Contains("\"10x\"") && Catch::Matchers::Contains("15%"));
}

TEST_CASE("a period written as text reads back equal", "[base]") {
  for (const char* text : {"0", "100", "1e", "0.1e", "2.5m", "15%", "33.3%", "0.0000001e", "9007199254740992"}) {
    CAPTURE(text);
    CHECK(mgtrain::to_string(parse_every(text)) == text);
  }
  const Every third{1.0 / 3, Unit::kEpochs};
  CHECK(parse_every(mgtrain::to_string(third)) == third);
  CHECK(mgtrain::to_string(parse_every("100s")) == "100");
}

TEST_CASE("a period becomes steps, at least one", "[base]") {
  CHECK(to_steps(parse_every("100"), 79, 790) == 100);
  CHECK(to_steps(parse_every("2e"), 79, 790) == 158);
  CHECK(to_steps(parse_every("15%"), 79, 790) == 119);  // 118.5
  CHECK(to_steps(parse_every("0.001e"), 79, 790) == 1);
  CHECK(to_steps(parse_every("0"), 79, 790) == 0);
  CHECK(to_steps(parse_every("0%"), 79, 790) == 0);
  CHECK_THROWS_AS(to_steps(parse_every("10m"), 79, 790), ConfigError);
}

TEST_CASE("a schedule is due at the multiples of its period", "[base]") {
  CHECK(due_steps(Schedule(parse_every("100"), 79, 790, 0), 1, 350) == std::vector<int64_t>{100, 200, 300});
  CHECK(due_steps(Schedule(parse_every("1e"), 79, 790, 0), 1, 240) == std::vector<int64_t>{79, 158, 237});
  CHECK(due_steps(Schedule(parse_every("0.5e"), 79, 790, 0), 1, 160) == std::vector<int64_t>{40, 79, 119, 158});
  CHECK(due_steps(Schedule(parse_every("50%"), 79, 790, 0), 1, 790) == std::vector<int64_t>{395, 790});
  CHECK(due_steps(Schedule(parse_every("0.1e"), 79, 790, 0), 1, 79).back() == 79);
  CHECK(due_steps(Schedule(parse_every("1"), 79, 790, 0), 1, 3) == std::vector<int64_t>{1, 2, 3});
  CHECK(due_steps(Schedule(parse_every("0"), 79, 790, 0), 1, 790).empty());
}

TEST_CASE("a schedule begun after a resume is due where an unbroken one is", "[base]") {
  const auto unbroken = due_steps(Schedule(parse_every("30"), 7, 200, 0), 1, 200);
  for (int64_t resumed_at = 0; resumed_at < 200; ++resumed_at) {
    std::vector<int64_t> expected;
    for (const int64_t step : unbroken) {
      if (step > resumed_at) expected.push_back(step);
    }
    CHECK(due_steps(Schedule(parse_every("30"), 7, 200, 0), resumed_at + 1, 200) == expected);
  }
}

TEST_CASE("a schedule in minutes follows the clock", "[base]") {
  Schedule schedule(parse_every("2m"), 10, 100, 1000);
  CHECK_FALSE(schedule.due(1, 1119.9));
  CHECK(schedule.due(2, 1120));
  CHECK_FALSE(schedule.due(3, 1239));
  CHECK(schedule.due(4, 1500));
  CHECK_FALSE(schedule.due(5, 1501));
}
