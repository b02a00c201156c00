// kill -9 and --resume: the bits of an unbroken run; what may change on the way and what may not.
#include <csignal>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

std::vector<std::string> with(std::vector<std::string> flags, const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace

TEST_CASE("killed at any time and resumed, a run ends with the bits of an unbroken one", "[end_to_end]") {
  const Scene scene;
  // Checkpoints within epochs, reports over several steps, uneven chunks on 3 replicas.
  const std::string gpus = GENERATE("cpu", "cpu:3");
  CAPTURE(gpus);
  const std::vector<std::string> flags = {
      "--epochs",     "6",  "--gpus",          gpus,    "--save-every",           "5", "--log-every", "3",
      "--eval-every", "10", "--trace-samples", "--set", "output.tensorboard=true"};
  REQUIRE(scene.train("whole", flags).exit_code == 0);
  const std::vector<std::string> resuming = with(flags, {"--resume", "auto"});
  uint32_t random = 12345;
  int kills = 0;
  for (int i = 0; i < 6; ++i) {
    random = random * 1664525 + 1013904223;
    // Somewhere in the next 20 steps, or in start-up, or while saving.
    const size_t steps = events(scene.run("cut"), "step").size() + (random >> 16) % 5;
    Program program(mgtrain_path(), scene.arguments("cut", resuming), {.folder = scene.folder()});
    program.wait_until([&] { return events(scene.run("cut"), "step").size() >= steps; });
    program.send(SIGKILL);
    kills += program.wait().exit_code == 137 ? 1 : 0;
  }
  CHECK(kills >= 2);
  const ProgramResult result = scene.train("cut", resuming);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(checkpoint_bits(scene.run("cut"), 42) == checkpoint_bits(scene.run("whole"), 42));
  CHECK(numeric_log(scene.run("cut")) == numeric_log(scene.run("whole")));
  CHECK(text_of(scene.run("cut") / "samples.txt") == text_of(scene.run("whole") / "samples.txt"));
  CHECK(text_of(scene.run("cut") / "best" / "model.safetensors") ==
        text_of(scene.run("whole") / "best" / "model.safetensors"));
}

TEST_CASE("--resume auto starts where nothing is, passes a damaged checkpoint over, and refuses when all are",
          "[end_to_end]") {
  const Scene scene;
  const ProgramResult fresh = scene.train("a", {"--resume", "auto", "--epochs", "3"});
  CHECK(fresh.exit_code == 0);
  CHECK(fresh.err.find("step 0") != std::string::npos);
  const auto damage = [&](int64_t step) {
    std::ofstream(scene.run("a") / "checkpoints" / step_folder(step) / "model.safetensors", std::ios::app) << "x";
  };
  damage(21);
  const ProgramResult passed_over = scene.train("a", {"--resume", "auto", "--epochs", "3"});
  INFO(passed_over.err);
  CHECK(passed_over.exit_code == 0);
  CHECK(passed_over.err.find("step-00000021") != std::string::npos);
  CHECK(passed_over.out.find("resumed at step 14") != std::string::npos);
  for (const int64_t step : {7, 14, 21}) damage(step);
  CHECK(scene.train("a", {"--resume", "auto"}).exit_code == 4);
  CHECK(scene.train("b", {"--resume", "nowhere"}).exit_code == 4);
}

TEST_CASE("a finished run resumed has nothing to do and touches no file", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a").exit_code == 0);
  const std::string before = text_of(scene.run("a") / "metrics.jsonl") + text_of(scene.run("a") / "log.txt") +
                             text_of(scene.run("a") / "summary.json");
  const ProgramResult again = scene.train("a", {"--resume", "auto"});
  CHECK(again.exit_code == 0);
  CHECK(again.last_line().starts_with("mgtrain: done step=21 val.top1="));
  CHECK(again.err.find("nothing to do") != std::string::npos);
  CHECK(scene.train("a", {"--resume", "a"}).exit_code == 0);
  CHECK(text_of(scene.run("a") / "metrics.jsonl") + text_of(scene.run("a") / "log.txt") +
            text_of(scene.run("a") / "summary.json") ==
        before);
}

TEST_CASE("what may change on resume, what needs leave, what never", "[end_to_end]") {
  const Scene scene;
  const std::vector<std::string> first = {"--epochs", "3", "--schedule", "constant"};
  REQUIRE(scene.train("a", first).exit_code == 0);
  const auto resume = [&](const std::vector<std::string>& more) {
    return scene.mgtrain(with({"--resume", "a"}, more));
  };
  // The saved configuration holds where nothing is given: the constant schedule among others.
  const ProgramResult longer = resume({"--epochs", "4"});
  INFO(longer.err);
  CHECK(longer.exit_code == 0);
  CHECK(longer.last_line().find("step=28 ") != std::string::npos);
  CHECK(longer.err.find("train.epochs: 3 -> 4") != std::string::npos);

  const ProgramResult rate = resume({"--epochs", "5", "--lr", "0.01"});
  CHECK(rate.exit_code == 2);
  CHECK(rate.err.find("optim.lr: 0.05 -> 0.01") != std::string::npos);
  CHECK(rate.err.find("--resume-changes allow") != std::string::npos);
  const ProgramResult allowed = resume({"--epochs", "5", "--lr", "0.01", "--resume-changes", "allow"});
  INFO(allowed.err);
  CHECK(allowed.exit_code == 0);
  CHECK(events(scene.run("a"), "step").back().at("learning_rate") == 0.01);

  const ProgramResult other = resume({"--epochs", "6", "--width", "4", "--resume-changes", "allow"});
  CHECK(other.exit_code == 4);
  CHECK(other.err.find("model.width: 2 -> 4") != std::string::npos);
  write_tiny_data(scene.folder() / "other", 101, 42);
  const ProgramResult data = resume({"--epochs", "6", "--data", "other", "--resume-changes", "allow"});
  CHECK(data.exit_code == 4);
  CHECK(data.err.find("fingerprint") != std::string::npos);

  const ProgramResult devices = resume({"--epochs", "6", "--gpus", "cpu:2"});
  INFO(devices.err);
  CHECK(devices.exit_code == 0);
  CHECK(devices.err.find("devices.gpus") != std::string::npos);
  CHECK(devices.out.find("2 CPU replicas") != std::string::npos);
}

TEST_CASE("a checkpoint goes on in another folder, its run untouched", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a", {"--schedule", "constant"}).exit_code == 0);
  const std::string before = text_of(scene.run("a") / "metrics.jsonl");
  const ProgramResult result = scene.mgtrain({"--resume", "a/checkpoints/" + step_folder(14), "--output", "b"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(text_of(scene.run("a") / "metrics.jsonl") == before);
  CHECK(checkpoint_bits(scene.run("b"), 21) == checkpoint_bits(scene.run("a"), 21));
  CHECK(events(scene.run("b"), "step").size() == 7);
  CHECK(std::filesystem::is_regular_file(scene.run("b") / "best" / "manifest.json"));
  CHECK(scene.mgtrain({"--resume", "a/checkpoints/" + step_folder(14), "--output", "b"}).exit_code == 2);
}
