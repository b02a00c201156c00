#include "config/options.h"

#include <clocale>
#include <limits>
#include <set>

#include "config/option_values.h"
#include "support/catch.h"

using mgtrain::find_option;
using mgtrain::Option;
using mgtrain::OptionValue;
using mgtrain::RunConfig;

namespace {

/// The problem of giving the option this value; "" if it is taken.
std::string problem_of(const std::string& key, const OptionValue& value) {
  RunConfig config;
  return find_option(key)->set(config, value).value_or("");
}

RunConfig with(const std::string& key, const OptionValue& value) {
  RunConfig config;
  INFO(key);
  REQUIRE_FALSE(find_option(key)->set(config, value).has_value());
  return config;
}

}  // namespace

TEST_CASE("every option has a unique key and flag, help, and a default that it accepts itself", "[config]") {
  std::set<std::string> keys, flags;
  for (const Option& option : mgtrain::options()) {
    CAPTURE(option.key);
    CHECK(keys.insert(option.key).second);
    if (!option.flag.empty()) CHECK(flags.insert(option.flag).second);
    CHECK_FALSE(option.help.empty());
    CHECK(find_option(option.key) == &option);
    RunConfig config;
    const OptionValue value = option.get(config);
    CHECK_FALSE(mgtrain::toml_type_problem(option, value).has_value());
    CHECK_FALSE(option.set(config, value).has_value());
    CHECK(option.get(config) == value);
  }
  CHECK(keys.size() == 72);  // the fields of RunConfig
}

TEST_CASE("the flags are those that scripts rely on", "[config]") {
  const std::set<std::string> expected = {"--data",          "--data-format", "--val",         "--drop-last",
                                          "--model",         "--width",       "--stem",        "--epochs",
                                          "--steps",         "--batch",       "--micro-batch", "--accumulate",
                                          "--optimizer",     "--lr",          "--lr-scale",    "--momentum",
                                          "--weight-decay",  "--schedule",    "--warmup",      "--label-smoothing",
                                          "--clip-grad",     "--seed",        "--gpus",        "--primary",
                                          "--missing-gpus",  "--strategy",    "--workers",     "--memory-format",
                                          "--deterministic", "--init",        "--reset-head",  "--allow-missing",
                                          "--freeze",        "--save-every",  "--keep",        "--eval-every",
                                          "--log-every",     "--time-limit",  "--early-stop",  "--on-nan",
                                          "--trace-samples", "--assert",      "--log-level",   "--grad-dtype",
                                          "--rdzv",          "--rank",        "--world",       "--timeout",
                                          "--sync-bn"};
  std::set<std::string> flags;
  for (const Option& option : mgtrain::options()) {
    if (!option.flag.empty()) flags.insert(option.flag);
  }
  CHECK(flags == expected);
}

TEST_CASE("numbers are read exactly, whatever the locale", "[config]") {
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  CHECK(with("optim.lr", "0.1").optim.lr == 0.1);
  CHECK(with("optim.lr", "1e-3").optim.lr == 1e-3);
  CHECK(with("optim.lr", int64_t{1}).optim.lr == 1.0);
  CHECK_FALSE(with("optim.lr", "auto").optim.lr.has_value());
  CHECK(problem_of("optim.lr", "0,1").find("\"0,1\"") != std::string::npos);
  CHECK(problem_of("optim.lr", "0,1").find("decimal mark") != std::string::npos);
  std::setlocale(LC_ALL, "C");
}

TEST_CASE("what is no number of the wanted kind is refused with the text seen", "[config]") {
  for (const char* text : {"", " 1", "1 ", "nan", "inf", "-inf", "1x", "0x10", "+1", "1e999", "-0.1"}) {
    CAPTURE(text);
    CHECK(problem_of("optim.weight_decay", text).find(text) != std::string::npos);
  }
  for (const char* text : {"", "1.5", "1e3", "128 ", "two", "99999999999999999999", "0", "-1"}) {
    CAPTURE(text);
    CHECK(problem_of("train.batch", text).find(text) != std::string::npos);
  }
  CHECK_FALSE(problem_of("optim.weight_decay", std::numeric_limits<double>::quiet_NaN()).empty());
  CHECK_FALSE(problem_of("optim.weight_decay", std::numeric_limits<double>::infinity()).empty());
  CHECK(problem_of("train.accumulate", "0") == "0 is out of range: 1 or more");
  CHECK(problem_of("checkpoint.keep", "1") == "1 is out of range: 2 or more");
  CHECK(problem_of("optim.momentum", "1") == "1 is out of range: 0 or more, less than 1");
  CHECK(problem_of("optim.eps", "0") == "0 is out of range: more than 0");
  CHECK(problem_of("data.workers", "257") == "257 is out of range: 0 to 256");
  CHECK(with("train.seed", "9223372036854775807").train.seed == 9223372036854775807u);
}

TEST_CASE("a refused value leaves the config as it was", "[config]") {
  RunConfig config;
  config.train.batch = 77;
  CHECK(find_option("train.batch")->set(config, "many").has_value());
  CHECK(config.train.batch == 77);
}

TEST_CASE("a wrong choice is answered with the choices and the nearest", "[config]") {
  CHECK(problem_of("optim.optimizer", "sdg") == "\"sdg\" is not one of sgd, adam, adamw; did you mean sgd?");
  CHECK(problem_of("model.name", "resnet-18").find("did you mean resnet18?") != std::string::npos);
  CHECK(problem_of("model.name", "ResNet18").find("did you mean resnet18?") != std::string::npos);
  CHECK(problem_of("train.on_nan", "skip") == "\"skip\" is not one of stop");
}

TEST_CASE("a time limit is stored in minutes and needs a unit", "[config]") {
  CHECK(with("train.time_limit", "30m").train.time_limit_minutes == 30.0);
  CHECK(with("train.time_limit", "2h").train.time_limit_minutes == 120.0);
  CHECK(with("train.time_limit", "90s").train.time_limit_minutes == 1.5);
  CHECK(with("train.time_limit", "0.5h").train.time_limit_minutes == 30.0);
  CHECK_FALSE(with("train.time_limit", "none").train.time_limit_minutes.has_value());
  CHECK(problem_of("train.time_limit", "30").find("30m") != std::string::npos);
  for (const char* text : {"", "0m", "-5m", "m", "30 m", "30d", "1h30m", "nanm", "infh"}) {
    CAPTURE(text);
    CHECK_FALSE(problem_of("train.time_limit", text).empty());
  }
  for (const char* text : {"100s", "7s", "0.001s", "1e-30m"}) {
    RunConfig config = with("train.time_limit", text);
    const auto minutes = config.train.time_limit_minutes;
    const Option& option = *find_option("train.time_limit");
    REQUIRE_FALSE(option.set(config, option.get(config)).has_value());
    CHECK(config.train.time_limit_minutes == minutes);
  }
}

TEST_CASE("lists come from commas or arrays and have no empty item", "[config]") {
  CHECK(with("model.freeze", "conv1, layer1").model.freeze == std::vector<std::string>{"conv1", "layer1"});
  CHECK(with("model.freeze", std::vector<std::string>{"a,b"}).model.freeze == std::vector<std::string>{"a,b"});
  CHECK(with("model.freeze", "").model.freeze.empty());
  CHECK_FALSE(problem_of("model.freeze", "a,,b").empty());
  CHECK_FALSE(problem_of("model.freeze", "a,").empty());
  CHECK(with("train.assert", "val.top1>=0.93,val.loss<1").train.asserts.size() == 2);
  for (const char* text : {"val.top1", "val.top1>=", "val.top1>=high", "top1>=0.9", "val.top1=>0.9", "val.top1>=nan"}) {
    CAPTURE(text);
    CHECK_FALSE(problem_of("train.assert", text).empty());
  }
}

TEST_CASE("truth values and periods are read as written", "[config]") {
  CHECK_FALSE(with("data.flip", "false").data.flip);
  CHECK(with("data.drop_last", "1").data.drop_last);
  CHECK(problem_of("data.flip", "maybe") == "\"maybe\" is neither true nor false");
  CHECK(with("checkpoint.save_every", int64_t{100}).checkpoint.save_every == mgtrain::Every{100});
  CHECK(with("optim.warmup", "15%").optim.warmup == mgtrain::Every{15, mgtrain::Every::Unit::kPercent});
  CHECK_FALSE(problem_of("optim.warmup", "10m").empty());
  CHECK_FALSE(problem_of("optim.step_size", "0").empty());
  CHECK_FALSE(problem_of("checkpoint.save_every", "soon").empty());
  CHECK_FALSE(problem_of("optim.milestones", "80e,10m").empty());
}

TEST_CASE("texts with a grammar are checked", "[config]") {
  for (const char* text : {"none", "dataset", "0.5;0.25", "0.49,0.48,0.45;0.25,0.24,0.26"}) {
    CHECK(problem_of("data.normalize", text).empty());
  }
  for (const char* text : {"", "imagenet", "0.5", "0.5;0", "0.5,0.5;0.1", "a;b", "0.5;0.2;0.1"}) {
    CAPTURE(text);
    CHECK_FALSE(problem_of("data.normalize", text).empty());
  }
  CHECK(problem_of("optim.lr_scale", "linear:256").empty());
  for (const char* text : {"linear", "linear:", "linear:0", "linear:x", "sqrt:256", ""}) {
    CAPTURE(text);
    CHECK_FALSE(problem_of("optim.lr_scale", text).empty());
  }
  CHECK(problem_of("data.val", "10%").empty());
  CHECK(problem_of("data.val", "some/folder").empty());
  for (const char* text : {"0%", "100%", "-5%", ""}) CHECK_FALSE(problem_of("data.val", text).empty());
}

TEST_CASE("the devices asked for reach the config verbatim", "[config]") {
  for (const char* text : {"0,1", "3,", "-1", " 0", "", "GPU-8a1f", "cpu:4", "0,,1"}) {
    CHECK(with("devices.gpus", text).devices.gpus == text);
  }
  CHECK(with("devices.gpus", int64_t{2}).devices.gpus == "2");
}

TEST_CASE("a value in a message is one short line", "[config]") {
  CHECK(mgtrain::quoted_text("a\nb\x1b[0m") == "\"a\\x0ab\\x1b[0m\"");
  CHECK(mgtrain::quoted_text(std::string(5000, 'x')).size() < 130);
}
