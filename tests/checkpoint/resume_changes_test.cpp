#include "checkpoint/resume_changes.h"

#include "base/error.h"
#include "config/options.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

using Values = std::vector<std::pair<std::string, std::string>>;

RunConfig with(const Values& values) {
  RunConfig config;
  for (const auto& [key, text] : values) {
    const Option* option = find_option(key);
    INFO(key);
    REQUIRE(option != nullptr);
    const auto problem = option->set(config, text);
    INFO(problem.value_or(""));
    REQUIRE_FALSE(problem);
  }
  return config;
}

struct Outcome {
  enum class Kind { kSame, kTaken, kRecorded, kRefused, kNever } kind;
  std::string text;
};
using Kind = Outcome::Kind;

std::ostream& operator<<(std::ostream& out, Kind kind) { return out << static_cast<int>(kind); }

Outcome compare(const Values& saved, const Values& now, bool allow = false, const std::string& fingerprint = "f",
                int64_t steps_per_epoch = 0) {
  try {
    const ResumeChanges changes =
        compare_for_resume(with(saved), with(now), allow, "f", fingerprint, steps_per_epoch, steps_per_epoch);
    std::string text;
    for (const auto& line : changes.taken) text += line + "\n";
    for (const auto& line : changes.recorded) text += line + "\n";
    if (!changes.recorded.empty()) return {Kind::kRecorded, text};
    return {changes.taken.empty() ? Kind::kSame : Kind::kTaken, text};
  } catch (const ConfigError& error) {
    return {Kind::kRefused, error.what()};
  } catch (const CheckpointError& error) {
    return {Kind::kNever, error.what()};
  }
}

TEST_CASE("an unchanged configuration has nothing to say", "[checkpoint]") {
  CHECK(compare({}, {}).kind == Kind::kSame);
  CHECK(compare({{"optim.lr", "auto"}}, {{"optim.lr", "0.1"}}).kind == Kind::kSame);
  CHECK(compare({{"checkpoint.save_every", "100"}}, {{"checkpoint.save_every", "100s"}}).kind == Kind::kSame);
}

TEST_CASE("product.md's first row is taken", "[checkpoint]") {
  const auto [key, value, numerics] = GENERATE(table<std::string, std::string, bool>({
      {"checkpoint.save_every", "17", false},
      {"checkpoint.keep", "9", false},
      {"train.eval_every", "3e", false},
      {"output.log_every", "7", false},
      {"output.log_level", "debug", false},
      {"data.workers", "3", false},
      {"train.time_limit", "30m", false},
      {"data.path", "/elsewhere", false},
      {"devices.gpus", "cpu:2", true},
      {"devices.missing_gpus", "error", true},
      {"parallel.strategy", "dp", true},
      {"train.accumulate", "2", true},
      {"train.micro_batch", "32", true},
      {"train.memory_format", "nchw", true},
  }));
  INFO(key);
  const Outcome outcome = compare({}, {{key, value}});
  CHECK(outcome.kind == Kind::kTaken);
  CHECK_THAT(outcome.text, StartsWith(key + ": ") && Contains(" -> "));
  CHECK((outcome.text.find("differ from here on") != std::string::npos) == numerics);
}

TEST_CASE("what steers the training is refused unless changes are allowed, then recorded", "[checkpoint]") {
  const auto [key, value] = GENERATE(table<std::string, std::string>({
      {"optim.lr", "0.2"},
      {"optim.lr_scale", "linear:256"},
      {"optim.schedule", "constant"},
      {"optim.warmup", "10"},
      {"optim.clip_grad", "0.5"},
      {"data.drop_last", "true"},
      {"model.freeze", "layer1"},
      {"data.val", "none"},
      {"optim.weight_decay", "0"},
      {"optim.momentum", "0.8"},
      {"train.batch", "64"},
      {"data.flip", "false"},
      {"data.crop_padding", "4"},
      {"optim.label_smoothing", "0.1"},
      {"train.seed", "1"},
      {"data.normalize", "none"},
      {"optim.nesterov", "false"},
      {"checkpoint.best", "val.loss"},
      {"train.early_stop", "3"},
      {"train.deterministic", "true"},
      {"data.prefetch", "2"},
      {"train.dtype", "float64"},
  }));
  INFO(key);
  const Outcome refused = compare({}, {{key, value}});
  CHECK(refused.kind == Kind::kRefused);
  CHECK_THAT(refused.text, Contains("\n  " + key + ": ") && Contains(" -> ") && Contains("--resume-changes allow"));
  const Outcome recorded = compare({}, {{key, value}}, true);
  CHECK(recorded.kind == Kind::kRecorded);
  CHECK_THAT(recorded.text, StartsWith(key + ": "));
}

TEST_CASE("another network, optimizer or data set is refused for good", "[checkpoint]") {
  const bool allow = GENERATE(false, true);
  const auto [key, value] = GENERATE(table<std::string, std::string>({
      {"model.name", "resnet50"},
      {"model.width", "32"},
      {"model.stem", "imagenet"},
      {"data.labels", "coarse"},
      {"optim.optimizer", "adam"},
  }));
  INFO(key);
  const Outcome outcome = compare({}, {{key, value}}, allow);
  CHECK(outcome.kind == Kind::kNever);
  CHECK_THAT(outcome.text, Contains("\n  " + key + ": ") && Contains(" -> ") && Contains("--init"));

  const Outcome data = compare({}, {}, allow, "other");
  CHECK(data.kind == Kind::kNever);
  CHECK_THAT(data.text, Contains("\n  data fingerprint: f -> other"));
}

TEST_CASE("old and new values of all differences are listed at once", "[checkpoint]") {
  const Values now = {{"train.batch", "64"}, {"optim.momentum", "0.8"}, {"data.workers", "2"}};
  const Outcome refused = compare({}, now);
  CHECK_THAT(refused.text, Contains("train.batch: 128 -> 64") && Contains("optim.momentum: 0.9 -> 0.8"));
  CHECK_THAT(refused.text, !Contains("data.workers"));

  Values never = now;
  never.emplace_back("model.name", "resnet34");
  never.emplace_back("model.width", "8");
  CHECK_THAT(compare({}, never, false, "g").text,
             Contains("model.name: \"resnet18\" -> \"resnet34\"") && Contains("model.width: 64 -> 8") &&
                 Contains("data fingerprint: f -> g") && Contains("train.batch: 128 -> 64"));
  CHECK_THAT(compare({}, never, true, "g").text, !Contains("train.batch"));
}

TEST_CASE("every key has a rule, and one not named is refused", "[checkpoint]") {
  CHECK(resume_rule("a.key_of_later") == ResumeRule::kRefused);
  int named = 0;
  for (const Option& option : options()) named += resume_rule(option.key) != ResumeRule::kRefused;
  CHECK(named >= 20);
}

TEST_CASE("more epochs or steps are taken where the learning rates do not depend on them", "[checkpoint]") {
  const auto [schedule, taken] = GENERATE(table<std::string, bool>({
      {"constant", true},
      {"step", true},
      {"multistep", true},
      {"cosine", false},
      {"onecycle", false},
  }));
  INFO(schedule);
  Values saved = {{"optim.schedule", schedule}, {"optim.milestones", "5e,8e"}};
  Values now = saved;
  const auto [key, value] = GENERATE(table<std::string, std::string>({{"train.epochs", "20"}, {"train.steps", "50"}}));
  now.emplace_back(key, value);

  const Outcome outcome = compare(saved, now);
  CHECK(outcome.kind == (taken ? Kind::kTaken : Kind::kRefused));
  CHECK_THAT(outcome.text, Contains(key + ": ") && Contains(" -> " + value));
  if (!taken) {
    CHECK_THAT(outcome.text, Contains("the " + schedule + " schedule is stretched"));
    CHECK(compare(saved, now, true).kind == Kind::kRecorded);
  }
}

TEST_CASE("parts given in percent of the run depend on its length", "[checkpoint]") {
  const auto outcome = [](Values saved) {
    Values now = saved;
    now.emplace_back("train.epochs", "20");
    return compare(saved, now);
  };
  CHECK(outcome({{"optim.schedule", "constant"}, {"optim.warmup", "5e"}}).kind == Kind::kTaken);
  CHECK_THAT(outcome({{"optim.schedule", "constant"}, {"optim.warmup", "15%"}}).text, Contains("a warm-up in percent"));
  CHECK_THAT(outcome({{"optim.schedule", "step"}, {"optim.step_size", "30%"}}).text,
             Contains("a step size in percent"));
  CHECK_THAT(outcome({{"optim.schedule", "multistep"}, {"optim.milestones", "5e,80%"}}).text,
             Contains("a milestone in percent"));
}

TEST_CASE("with the steps of an epoch known, the stretch is told in steps", "[checkpoint]") {
  CHECK_THAT(compare({}, {{"train.epochs", "20"}}, false, "f", 79).text,
             Contains("train.epochs: 10 -> 20 (the cosine schedule is stretched from 790 to 1580 steps"));
  CHECK_THAT(compare({}, {{"train.steps", "100"}}, true, "f", 79).text,
             Contains("train.steps: 0 -> 100 (the cosine schedule is compressed from 790 to 100 steps"));
  // The first of epochs and steps reached ends the run: here it stays the same one.
  const Outcome same =
      compare({{"train.steps", "100"}}, {{"train.steps", "100"}, {"train.epochs", "20"}}, false, "f", 79);
  CHECK(same.kind == Kind::kTaken);
  CHECK_THAT(same.text, Contains("the run has 100 steps as before"));
}

}  // namespace
}  // namespace mgtrain
