// mgtrain train as its users start it: results, run folder, the same bits from the same seed, streams.
#include <algorithm>
#include <regex>

#include "end_to_end/scene.h"
#include "observe/json_schema.h"
#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

TEST_CASE("a run trains, evaluates, saves and says so in its last line", "[end_to_end]") {
  const Scene scene;
  const ProgramResult result =
      scene.train("runs/a", {"--set", "output.tensorboard=true", "--set", "data.flip=false", "--epochs", "6"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(
      std::regex_match(result.last_line(), std::regex("mgtrain: done step=42 val\\.top1=[01]\\.[0-9]{4} run=runs/a")));
  const auto run = scene.run("runs/a");
  for (const char* name : {"config.toml", "plan.json", "environment.json", "metrics.jsonl", "log.txt", "summary.json",
                           "best/manifest.json", "checkpoints/step-00000042/manifest.json"}) {
    INFO(name);
    CHECK(std::filesystem::is_regular_file(run / name));
  }
  const auto has_events = [](const auto& entry) {
    return entry.path().filename().string().starts_with("events.out.tfevents.");
  };
  CHECK(std::ranges::any_of(std::filesystem::directory_iterator(run), has_events));

  const JsonSchema schema(
      nlohmann::json::parse(text_of(std::filesystem::path(MGTRAIN_SOURCE_DIR) / "docs/metrics.schema.json")));
  for (const Json& event : json_lines(text_of(run / "metrics.jsonl"))) CHECK(schema.fault(event) == "");
  CHECK(events(run, "start").size() == 1);
  CHECK(events(run, "step").size() == 42);
  CHECK(events(run, "eval").size() == 6);
  CHECK(events(run, "end").size() == 1);
  // Four quarters, of which one is bright: learnt in a moment, if anything is learnt at all. A flip would swap them.
  const Json summary = Json::parse(text_of(run / "summary.json"));
  CHECK(summary.at("val").at("top1").get<double>() > 0.6);
  CHECK(summary.at("val").at("num_samples") == 42);
  CHECK(events(run, "step").back().at("samples_seen") == 600);
  const Json environment = Json::parse(text_of(run / "environment.json"));
  CHECK(environment.at("libtorch").get<std::string>().starts_with("2."));
  CHECK(scene.mgtrain({"checkpoint", "verify", "runs/a"}).exit_code == 0);
}

TEST_CASE("the configuration a run records starts the same run", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a", {"--epochs", "1"}).exit_code == 0);
  REQUIRE(scene.mgtrain({"--config", "a/config.toml", "--output", "b"}).exit_code == 0);
  CHECK(checkpoint_bits(scene.run("a"), 7) == checkpoint_bits(scene.run("b"), 7));
}

TEST_CASE("same seed, same bits: two runs, workers 0, 1 and 4, prefetch 1 and 4", "[end_to_end]") {
  const Scene scene;
  const std::vector<std::vector<std::string>> ways = {{"--workers", "1"},
                                                      {"--workers", "1"},
                                                      {"--workers", "0"},
                                                      {"--workers", "4"},
                                                      {"--workers", "4", "--set", "data.prefetch=1"}};
  const std::string gpus = GENERATE("cpu", "cpu:2");
  std::vector<std::string> log;
  std::string bits;
  for (size_t i = 0; i < ways.size(); ++i) {
    std::vector<std::string> more = ways[i];
    more.insert(more.end(), {"--gpus", gpus, "--trace-samples"});
    const std::string name = "run" + std::to_string(i);
    const ProgramResult result = scene.train(name, more);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    if (i == 0) {
      log = numeric_log(scene.run(name));
      bits = checkpoint_bits(scene.run(name), 21);
      REQUIRE(log.size() == 24);
    } else {
      CHECK(numeric_log(scene.run(name)) == log);
      CHECK(checkpoint_bits(scene.run(name), 21) == bits);
    }
    CHECK(text_of(scene.run(name) / "samples.txt") == text_of(scene.run("run0") / "samples.txt"));
  }
  REQUIRE(scene.train("other", {"--seed", "1", "--gpus", gpus}).exit_code == 0);
  CHECK(numeric_log(scene.run("other")) != log);
}

TEST_CASE("an epoch sees each sample once, in another order each time", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a", {"--epochs", "2", "--trace-samples", "--gpus", "cpu:3", "--accumulate", "2"}).exit_code ==
          0);
  std::istringstream lines(text_of(scene.run("a") / "samples.txt"));
  std::vector<std::vector<int64_t>> seen(2);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    int64_t step = 0, epoch = 0;
    numbers >> step >> epoch;
    for (int64_t index; numbers >> index;) seen.at(static_cast<size_t>(epoch)).push_back(index);
  }
  CHECK(seen[0] != seen[1]);
  for (std::vector<int64_t>& epoch : seen) {
    std::ranges::sort(epoch);
    REQUIRE(epoch.size() == 100);
    for (int64_t i = 0; i < 100; ++i) REQUIRE(epoch[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("evaluation counts the same on any number of devices", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a").exit_code == 0);
  const auto score = [&](const std::string& gpus, const std::string& batch) {
    const ProgramResult result = scene.mgtrain({"eval", "a", "--gpus", gpus, "--batch", batch, "--json"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  };
  const Json one = score("cpu", "16");
  CHECK(one.at("num_samples") == 42);
  for (const auto& [gpus, batch] : {std::pair{"cpu:2", "16"}, {"cpu:4", "5"}, {"cpu", "42"}, {"cpu:3", "1"}}) {
    const Json other = score(gpus, batch);
    CHECK(other.at("confusion") == one.at("confusion"));
    CHECK(other.at("top5") == one.at("top5"));
    // Sums in another order, of logits from convolutions over other batches.
    CHECK(other.at("loss").get<double>() == Approx(one.at("loss").get<double>()).epsilon(1e-5));
  }
  const auto last_eval = events(scene.run("a"), "eval").back();
  const Json last = Json::parse(scene.mgtrain({"eval", "a", "--checkpoint", "last", "--json"}).out);
  CHECK(last.at("top1") == last_eval.at("top1"));
}

TEST_CASE("--gpus 0,1 without GPUs trains on two announced CPU replicas, twice in two folders", "[end_to_end]") {
  const Scene scene;
  if (Json::parse(scene.mgtrain({"devices", "--json"}).out).at("pci_nvidia_gpus") != 0) return;
  const std::vector<std::string> command = {"--gpus", "0,1",    "--batch", "32",      "--epochs",
                                            "1",      "--data", "data",    "--width", "2"};
  for (int i = 0; i < 2; ++i) {
    const ProgramResult result = scene.mgtrain(command);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.err.find("no NVIDIA GPU in this machine") != std::string::npos);
    CHECK(result.err.find("cpu:2") != std::string::npos);
    CHECK(result.out.find("2 CPU replicas") != std::string::npos);
  }
  std::vector<std::filesystem::path> runs;
  for (const auto& entry : std::filesystem::directory_iterator(scene.folder() / "runs")) runs.push_back(entry.path());
  REQUIRE(runs.size() == 2);
  for (const auto& run : runs) {
    REQUIRE(events(run, "device_fallback").size() == 1);
    CHECK(events(run, "device_fallback")[0].at("used") == "cpu:2");
    CHECK(events(run, "end").at(0).at("exit_code") == 0);
  }
  CHECK(scene.mgtrain({"--gpus", "0,1", "--missing-gpus", "error", "--data", "data"}).exit_code == 7);
}

TEST_CASE("off a terminal: no carriage return, no colours; every line of --json parses; --quiet is the last line",
          "[end_to_end]") {
  const Scene scene;
  const ProgramResult plain = scene.train("plain", {"--epochs", "1"});
  CHECK(plain.exit_code == 0);
  CHECK((plain.out + plain.err).find_first_of("\r\033") == std::string::npos);

  const ProgramResult json = scene.train("json", {"--epochs", "1", "--json"});
  const std::vector<Json> lines = json_lines(json.out);
  CHECK(lines.front().at("event") == "start");
  CHECK(lines.back().at("event") == "end");
  CHECK(std::ranges::count_if(lines, [](const Json& line) { return line.at("event") == "step"; }) == 7);

  const ProgramResult quiet = scene.train("quiet", {"--epochs", "1", "--quiet"});
  CHECK(quiet.out == quiet.last_line() + "\n");
  CHECK(quiet.last_line().starts_with("mgtrain: done step=7"));
  CHECK(quiet.err == "");

  const ProgramResult terminal = scene.train("terminal", {"--epochs", "1"}, {.terminal = true});
  CHECK(terminal.exit_code == 0);
  CHECK(terminal.err.find('\r') != std::string::npos);
}

TEST_CASE("a closed stdout does not stop training", "[end_to_end]") {
  const Scene scene;
  const ProgramResult result = scene.train("a", {}, {.closed_stdout = true});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(events(scene.run("a"), "end").size() == 1);
}

TEST_CASE("early stop, time limit and asserts end a run with the exit code they promise", "[end_to_end]") {
  const Scene scene;
  const ProgramResult early = scene.train("early", {"--epochs", "50", "--lr", "0", "--early-stop", "2"});
  CHECK(early.exit_code == 0);
  // A rate of 0 never improves: the first evaluation is the best, two more end the run.
  CHECK(early.last_line().find("step=21 ") != std::string::npos);
  CHECK(early.last_line().find("reason=\"early stop\"") != std::string::npos);

  const ProgramResult limit = scene.train("limit", {"--epochs", "100000", "--time-limit", "1s"});
  CHECK(limit.exit_code == 0);
  CHECK(limit.last_line().find("reason=\"time limit\"") != std::string::npos);
  CHECK(scene.mgtrain({"checkpoint", "verify", "limit"}).exit_code == 0);

  const ProgramResult met = scene.train("met", {"--assert", "val.top1>=0", "--assert", "val.loss<1000"});
  CHECK(met.exit_code == 0);
  const ProgramResult failed = scene.train("failed", {"--assert", "val.top1>=0.1", "--assert", "val.loss<1e-9"});
  CHECK(failed.exit_code == 1);
  CHECK(failed.last_line().starts_with("mgtrain: failed reason=assertion"));
  CHECK(failed.err.find("val.loss<1e-9") != std::string::npos);
  CHECK(failed.err.find("val.top1>=0.1") == std::string::npos);
}
