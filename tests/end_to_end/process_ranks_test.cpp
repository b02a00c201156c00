// Ranks in processes of their own, over Gloo: against ranks that are threads, and how they end.
#include "end_to_end/process_ranks.h"

#include <chrono>
#include <csignal>

#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

using Flags = std::vector<std::string>;

constexpr int64_t kSteps = 21;

Flags with(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

bool all_end_with(const std::vector<ProgramResult>& results, int exit_code) {
  for (const ProgramResult& result : results)
    if (result.exit_code != exit_code) return false;
  return true;
}

/// A run that lasts, and saves often.
const Flags kLong = {"--epochs", "200", "--save-every", "5", "--eval-every", "0", "--schedule", "constant"};

bool has_steps(const Scene& scene, const std::string& run, size_t count) {
  return events(scene.run(run), "step").size() >= count;
}

}  // namespace

TEST_CASE("two processes leave the bits of two threads", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("threads", {"--strategy", "ddp", "--gpus", "cpu:2", "--trace-samples"}).exit_code == 0);
  ProcessRanks ranks(scene, 2, "processes", {"--gpus", "cpu", "--trace-samples"});
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  REQUIRE(all_end_with(results, 0));
  CHECK(checkpoint_bits(scene.run("processes"), kSteps) == checkpoint_bits(scene.run("threads"), kSteps));
  CHECK(numeric_log(scene.run("processes")) == numeric_log(scene.run("threads")));
  CHECK(text_of(scene.run("processes") / "samples.txt") == text_of(scene.run("threads") / "samples.txt"));
  // The first rank speaks for all.
  CHECK(results[0].last_line().starts_with("mgtrain: done step=21"));
  CHECK(results[1].out.empty());
  CHECK(results[1].err.empty());
  // Nothing of one process stands in the run's config: it trains elsewhere as it is.
  const std::string config = text_of(scene.run("processes") / "config.toml");
  CHECK(config.find("rdzv") == std::string::npos);
  CHECK(events(scene.run("processes"), "start").at(0).at("devices").size() == 2);
}

TEST_CASE("two processes with --sync-bn leave the bits of two threads with it", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("threads", {"--strategy", "ddp", "--gpus", "cpu:2", "--sync-bn"}).exit_code == 0);
  ProcessRanks ranks(scene, 2, "processes", {"--gpus", "cpu", "--sync-bn"});
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  REQUIRE(all_end_with(results, 0));
  CHECK(checkpoint_bits(scene.run("processes"), kSteps) == checkpoint_bits(scene.run("threads"), kSteps));
}

TEST_CASE("what threads saved processes go on with, and the other way round", "[end_to_end]") {
  const Scene scene;
  const Flags flags = {"--schedule", "constant"};
  const Flags threads = with(flags, {"--strategy", "ddp", "--gpus", "cpu:2"});
  REQUIRE(scene.train("whole", threads).exit_code == 0);
  REQUIRE(scene.train("cut", with(threads, {"--epochs", "1"})).exit_code == 0);
  ProcessRanks ranks(scene, 2, "cut", with(flags, {"--gpus", "cpu", "--epochs", "2", "--resume", "auto"}));
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  REQUIRE(all_end_with(results, 0));
  REQUIRE(scene.train("cut", with(threads, {"--resume", "auto"})).exit_code == 0);
  CHECK(checkpoint_bits(scene.run("cut"), kSteps) == checkpoint_bits(scene.run("whole"), kSteps));
  CHECK(numeric_log(scene.run("cut")) == numeric_log(scene.run("whole")));

  // A finished run has nothing left to do, for any rank.
  ProcessRanks again(scene, 2, "cut", with(flags, {"--gpus", "cpu", "--resume", "auto"}));
  const std::vector<ProgramResult> done = again.wait();
  INFO(errors_of(done));
  CHECK(all_end_with(done, 0));
  CHECK(done[0].last_line().starts_with("mgtrain: done step=21"));
}

TEST_CASE("ranks that were started with different words end with exit code 2 and the difference", "[end_to_end]") {
  const Scene scene;
  ProcessRanks ranks(scene, 2, "run", {"--gpus", "cpu"}, {{}, {"--lr", "0.3"}});
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  CHECK(all_end_with(results, 2));
  for (const ProgramResult& result : results)
    CHECK(result.err.find("optim.lr: 0.3, rank 0: 0.05") != std::string::npos);
}

TEST_CASE("ranks with different data end with exit code 3", "[end_to_end]") {
  const Scene scene;
  write_tiny_data(scene.folder() / "other", 100, 43);
  ProcessRanks ranks(scene, 2, "run", {"--gpus", "cpu"}, {{}, {"--data", "other"}});
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  CHECK(all_end_with(results, 3));
  CHECK(results[0].err.find("rank 1 has other data") != std::string::npos);
}

TEST_CASE("a strategy of one process is refused for several, and a list of devices that is none of one each",
          "[end_to_end]") {
  const Scene scene;
  for (const Flags& flags : {Flags{"--gpus", "cpu", "--strategy", "dp"}, Flags{"--gpus", "cpu:3"}}) {
    ProcessRanks ranks(scene, 2, "run", flags);
    const std::vector<ProgramResult> results = ranks.wait();
    INFO(errors_of(results));
    CHECK(all_end_with(results, 2));
  }
}

TEST_CASE("a killed rank ends the others with exit code 7 and its name, and the run goes on from its checkpoint",
          "[end_to_end]") {
  const Scene scene;
  REQUIRE(
      scene.train("whole", {"--strategy", "ddp", "--gpus", "cpu:2", "--epochs", "6", "--save-every", "5"}).exit_code ==
      0);
  const Flags flags = {"--gpus", "cpu", "--epochs", "6", "--save-every", "5"};
  size_t steps = 0;
  for (const int killed : {1, 0}) {
    CAPTURE(killed);
    ProcessRanks ranks(scene, 2, "cut", with(flags, {"--resume", "auto"}));
    steps += 7;
    REQUIRE(ranks[1 - killed].wait_until([&] { return has_steps(scene, "cut", steps); }));
    ranks[killed].send(SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult other = ranks[1 - killed].wait();
    INFO(other.err);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
    CHECK(other.exit_code == 7);
    CHECK(other.err.find("rank " + std::to_string(killed) + " (cpu)") != std::string::npos);
    CHECK(other.err.find("step") != std::string::npos);
  }
  ProcessRanks ranks(scene, 2, "cut", with(flags, {"--resume", "auto"}));
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  REQUIRE(all_end_with(results, 0));
  CHECK(checkpoint_bits(scene.run("cut"), 42) == checkpoint_bits(scene.run("whole"), 42));
  CHECK(numeric_log(scene.run("cut")) == numeric_log(scene.run("whole")));
}

TEST_CASE("a stopped rank ends the others within 1.5 times --timeout, by name", "[end_to_end]") {
  const Scene scene;
  for (const int stopped : {1, 0}) {
    CAPTURE(stopped);
    const std::string run = "run" + std::to_string(stopped);
    ProcessRanks ranks(scene, 2, run, with(kLong, {"--gpus", "cpu", "--timeout", "6"}));
    REQUIRE(ranks[1 - stopped].wait_until([&] { return has_steps(scene, run, 7); }));
    ranks[stopped].send(SIGSTOP);
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult other = ranks[1 - stopped].wait();
    const auto waited = std::chrono::steady_clock::now() - start;
    INFO(other.err);
    CHECK(other.exit_code == 7);
    CHECK(waited > std::chrono::seconds(5));
    CHECK(waited < std::chrono::seconds(9));
    CHECK(other.err.find("rank " + std::to_string(stopped)) != std::string::npos);
    ranks[stopped].send(SIGCONT);
    CHECK(ranks[stopped].wait().exit_code == 7);
  }
}

TEST_CASE("a full disk of the first rank ends all with exit code 5", "[end_to_end]") {
  const Scene scene;
  ProcessRanks ranks(scene, 2, "run", {"--gpus", "cpu", "--width", "16"}, {},
                     ProgramOptions{.file_size_limit = 400 * 1024});
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  CHECK(all_end_with(results, 5));
}

TEST_CASE("a signal to any rank stops all after the same step, with a checkpoint", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("whole", {"--strategy", "ddp", "--gpus", "cpu:2", "--epochs", "6"}).exit_code == 0);
  const Flags flags = {"--gpus", "cpu", "--epochs", "6", "--resume", "auto"};
  size_t steps = 0;
  for (const auto& [rank, signal] : {std::pair{1, SIGTERM}, {0, SIGINT}}) {
    CAPTURE(rank, signal);
    ProcessRanks ranks(scene, 2, "cut", flags);
    steps += 5;
    REQUIRE(ranks[0].wait_until([&] { return has_steps(scene, "cut", steps); }));
    ranks[rank].send(signal);
    const std::vector<ProgramResult> results = ranks.wait();
    INFO(errors_of(results));
    CHECK(all_end_with(results, 128 + signal));
    steps = events(scene.run("cut"), "step").size();
  }
  ProcessRanks ranks(scene, 2, "cut", flags);
  const std::vector<ProgramResult> results = ranks.wait();
  INFO(errors_of(results));
  REQUIRE(all_end_with(results, 0));
  CHECK(checkpoint_bits(scene.run("cut"), 42) == checkpoint_bits(scene.run("whole"), 42));
}

TEST_CASE("a rank that does not come is named after --timeout", "[end_to_end]") {
  const Scene scene;
  const ProgramResult result = scene.train(
      "run", {"--gpus", "cpu", "--rdzv", "127.0.0.1:29713", "--rank", "0", "--world", "2", "--timeout", "1"});
  INFO(result.err);
  CHECK(result.exit_code == 7);
  CHECK(result.err.find("rank 1") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(scene.run("run")));
}

TEST_CASE("plan of a launched process shows its part, and meets nobody", "[end_to_end]") {
  const Scene scene;
  const ProgramResult result = scene.mgtrain({"plan", "--data", "data", "--gpus", "cpu", "--batch", "15", "--rdzv",
                                              "127.0.0.1:1", "--rank", "1", "--world", "2", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json plan = Json::parse(result.out);
  CHECK(plan.at("strategy") == "ddp");
  CHECK(plan.at("launch").at("ranks") == 2);
  CHECK(plan.at("batch").at("per_device") == Json{8, 7});
  CHECK(plan.at("devices").size() == 1);
  CHECK(plan.at("devices").at(0).at("batch") == 7);
}
