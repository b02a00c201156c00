#include "optim/lr_schedule.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"

using namespace mgtrain;

namespace {

nlohmann::json goldens() {
  std::ifstream file(MGTRAIN_SOURCE_DIR "/tests/goldens/lr_schedules.json");
  return nlohmann::json::parse(file);
}

OptimConfig config_of(const nlohmann::json& golden) {
  OptimConfig config;
  config.schedule = golden["schedule"];
  config.warmup = Every{golden["warmup"].get<double>(), Every::Unit::kSteps};
  const nlohmann::json& given = golden["config"];
  if (given.contains("step_size")) config.step_size = parse_every(given["step_size"].get<std::string>());
  if (given.contains("milestones")) config.milestones = given["milestones"].get<std::vector<std::string>>();
  config.gamma = given.value("gamma", config.gamma);
  config.min_lr = given.value("min_lr", config.min_lr);
  config.onecycle_start = given.value("onecycle_start", config.onecycle_start);
  config.onecycle_end = given.value("onecycle_end", config.onecycle_end);
  config.onecycle_rise = given.value("onecycle_rise", config.onecycle_rise);
  return config;
}

OptimConfig cosine_with_warmup(const std::string& warmup) {
  OptimConfig config;
  config.warmup = parse_every(warmup);
  return config;
}

}  // namespace

TEST_CASE("every schedule gives the rates of Python's scheduler at every update", "[optim]") {
  const nlohmann::json file = goldens();
  REQUIRE(file["cases"].size() >= 12);
  for (const nlohmann::json& golden : file["cases"]) {
    INFO(golden["name"].get<std::string>());
    const LrSchedule schedule(config_of(golden), golden["lr"], golden["steps_per_epoch"], golden["total"]);
    const auto rates = golden["rates"].get<std::vector<double>>();
    REQUIRE(static_cast<int64_t>(rates.size()) == schedule.total_steps());
    for (size_t step = 0; step < rates.size(); ++step) {
      INFO("step " << step);
      // Python's libm and ours may differ in the last place of cos; nothing else rounds differently.
      CHECK(std::abs(schedule.at(static_cast<int64_t>(step)) - rates[step]) <= 1e-12 * rates[step]);
    }
  }
}

TEST_CASE("warm-up then cosine is the quickstart recipe's formula", "[optim]") {
  const int64_t per_epoch = 157, total = 785, warm = 118;  // 15 % of 785 is 117.75
  const LrSchedule schedule(cosine_with_warmup("15%"), 0.1, per_epoch, total);
  CHECK(schedule.warmup_steps() == warm);
  CHECK(schedule.at(0) == Approx(0.1 / warm).epsilon(1e-12));
  CHECK(schedule.at(warm - 1) == Approx(0.1).epsilon(1e-12));
  CHECK(schedule.at(warm) == Approx(0.1).epsilon(1e-12));
  const double pi = std::acos(-1.0);
  CHECK(schedule.at(500) == Approx(0.1 * 0.5 * (1 + std::cos(pi * (500 - warm) / (total - warm)))).epsilon(1e-12));
}

TEST_CASE("a warm-up as long as the run, or longer, stays a straight line", "[optim]") {
  const LrSchedule schedule(cosine_with_warmup("20"), 0.1, 5, 10);
  for (int64_t step = 0; step < 10; ++step) CHECK(schedule.at(step) == Approx(0.1 * (step + 1) / 20.0));
}

TEST_CASE("rates depend on the total for cosine, one-cycle and periods in percent only", "[optim]") {
  const auto depends = [](const std::string& schedule, const std::string& warmup, const std::string& step_size,
                          const std::vector<std::string>& milestones) {
    OptimConfig config;
    config.schedule = schedule;
    config.warmup = parse_every(warmup);
    config.step_size = parse_every(step_size);
    config.milestones = milestones;
    return LrSchedule(config, 0.1, 10, 100).depends_on_total();
  };
  CHECK_FALSE(depends("constant", "5", "30e", {}));
  CHECK_FALSE(depends("step", "1e", "30e", {}));
  CHECK_FALSE(depends("multistep", "0", "30e", {"2e", "40"}));
  CHECK_FALSE(depends("constant", "0", "10%", {}));
  CHECK(depends("constant", "5%", "30e", {}));
  CHECK(depends("step", "0", "10%", {}));
  CHECK(depends("multistep", "0", "30e", {"2e", "40%"}));
  CHECK(depends("cosine", "0", "30e", {}));
  CHECK(depends("onecycle", "0", "30e", {}));
}

TEST_CASE("the rate in force is the given or the optimizer's own, scaled only where asked", "[optim]") {
  OptimConfig config;
  CHECK(learning_rate_in_force(config, 512) == 0.1);
  config.optimizer = "adamw";
  CHECK(learning_rate_in_force(config, 512) == 0.001);
  config.lr = 0.2;
  CHECK(learning_rate_in_force(config, 512) == 0.2);
  config.lr_scale = "linear:256";
  CHECK(learning_rate_in_force(config, 512) == Approx(0.4).epsilon(1e-15));
  CHECK(learning_rate_in_force(config, 64) == Approx(0.05).epsilon(1e-15));
}

TEST_CASE("periods and scalings that mean nothing are refused by key", "[optim]") {
  OptimConfig config;
  for (const char* text : {"linear", "linear:", "linear:0", "linear:-1", "linear:2x", "sqrt:256"}) {
    INFO(text);
    config.lr_scale = text;
    CHECK_THROWS_AS(learning_rate_in_force(config, 64), ConfigError);
  }
  OptimConfig step;
  step.schedule = "step";
  step.step_size = Every{};
  CHECK_THROWS_WITH(LrSchedule(step, 0.1, 10, 100), Catch::Contains("optim.step_size"));
  OptimConfig unknown;
  unknown.schedule = "linear";
  CHECK_THROWS_WITH(LrSchedule(unknown, 0.1, 10, 100), Catch::Contains("linear"));
  OptimConfig minutes;
  minutes.warmup = parse_every("5m");
  CHECK_THROWS_AS(LrSchedule(minutes, 0.1, 10, 100), ConfigError);
}
