// `--strategy ddp`: whole runs of ranks as threads, against one device, dp and themselves.
#include <csignal>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

std::vector<std::string> ddp(const std::string& gpus, const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = {"--strategy", "ddp", "--gpus", gpus};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

constexpr int64_t kSteps = 21;

double last_loss(const Scene& scene, const std::string& run) {
  return events(scene.run(run), "eval").back().at("loss");
}

}  // namespace

TEST_CASE("a world of one is a run on one device, bit for bit", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("single", {"--gpus", "cpu:1"}).exit_code == 0);
  const ProgramResult result = scene.train("ddp", ddp("cpu:1"));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(checkpoint_bits(scene.run("ddp"), kSteps) == checkpoint_bits(scene.run("single"), kSteps));
  CHECK(numeric_log(scene.run("ddp")) == numeric_log(scene.run("single")));
}

TEST_CASE("ranks train as replicas do, repeat their bits, and each sample is seen once an epoch", "[end_to_end]") {
  const Scene scene;
  const std::vector<std::string> double_precision = {"--set", "train.dtype=float64", "--trace-samples"};
  std::vector<std::string> dp = double_precision;
  dp.insert(dp.end(), {"--gpus", "cpu:3"});
  REQUIRE(scene.train("dp", dp).exit_code == 0);
  for (const char* run : {"first", "second"}) {
    const ProgramResult result = scene.train(run, ddp("cpu:3", double_precision));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
  }
  CHECK(checkpoint_bits(scene.run("first"), kSteps) == checkpoint_bits(scene.run("second"), kSteps));
  CHECK(numeric_log(scene.run("first")) == numeric_log(scene.run("second")));
  CHECK(text_of(scene.run("first") / "samples.txt") == text_of(scene.run("dp") / "samples.txt"));
  const std::vector<Json> ours = events(scene.run("first"), "step"), theirs = events(scene.run("dp"), "step");
  REQUIRE(ours.size() == kSteps);
  for (size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(i);
    // The same chunks; sums over them in another order.
    CHECK(ours[i].at("loss").get<double>() == Approx(theirs[i].at("loss").get<double>()).epsilon(1e-9));
    CHECK(ours[i].at("top1") == theirs[i].at("top1"));
  }
  CHECK(events(scene.run("first"), "start").at(0).at("strategy") == "ddp");
}

TEST_CASE("a checkpoint of two ranks goes on on one device, on three replicas and on three ranks", "[end_to_end]") {
  const Scene scene;
  const std::vector<std::string> short_run = {"--epochs", "1", "--schedule", "constant"};
  REQUIRE(scene.train("ranks", ddp("cpu:2", short_run)).exit_code == 0);
  const ProgramResult eval = scene.mgtrain({"eval", "ranks", "--gpus", "cpu", "--json"});
  REQUIRE(eval.exit_code == 0);
  CHECK(Json::parse(eval.out).at("loss").get<double>() == Approx(last_loss(scene, "ranks")).epsilon(1e-6));
  for (const auto& [gpus, strategy] : {std::pair{"cpu", "single"}, {"cpu:3", "dp"}, {"cpu:3", "ddp"}}) {
    CAPTURE(gpus, strategy);
    const std::string name = std::string("to-") + strategy;
    const ProgramResult result = scene.train(
        name, {"--resume", "ranks", "--epochs", "2", "--schedule", "constant", "--gpus", gpus, "--strategy", strategy});
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("resumed at step 7") != std::string::npos);
    CHECK(events(scene.run(name), "step").size() == 7);
  }
}

TEST_CASE("ranks killed or stopped and resumed end with the bits of an unbroken run", "[end_to_end]") {
  const Scene scene;
  const std::vector<std::string> flags =
      ddp("cpu:2", {"--epochs", "6", "--save-every", "5", "--eval-every", "10", "--trace-samples"});
  REQUIRE(scene.train("whole", flags).exit_code == 0);
  std::vector<std::string> resuming = flags;
  resuming.insert(resuming.end(), {"--resume", "auto"});
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    CAPTURE(signal);
    const size_t steps = events(scene.run("cut"), "step").size() + 3;
    Program program(mgtrain_path(), scene.arguments("cut", resuming), {.folder = scene.folder()});
    REQUIRE(program.wait_until([&] { return events(scene.run("cut"), "step").size() >= steps; }));
    program.send(signal);
    const ProgramResult result = program.wait();
    INFO(result.err);
    if (result.exit_code == 0) continue;
    CHECK(result.exit_code == 128 + signal);
  }
  const ProgramResult result = scene.train("cut", resuming);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(checkpoint_bits(scene.run("cut"), 42) == checkpoint_bits(scene.run("whole"), 42));
  CHECK(numeric_log(scene.run("cut")) == numeric_log(scene.run("whole")));
  CHECK(text_of(scene.run("cut") / "samples.txt") == text_of(scene.run("whole") / "samples.txt"));
}

TEST_CASE("with --sync-bn ranks train as one device does on the whole batch, and go on as it does", "[end_to_end]") {
  // 101 images: the tail of an epoch is one image, so one rank of two or three has none.
  const Scene scene(101);
  const std::vector<std::string> exact = {"--set", "train.dtype=float64", "--epochs", "2", "--batch", "10"};
  std::vector<std::string> one = exact;
  one.insert(one.end(), {"--gpus", "cpu:1"});
  REQUIRE(scene.train("one", one).exit_code == 0);
  const std::vector<Json> expected = events(scene.run("one"), "step");
  for (const char* gpus : {"cpu:2", "cpu:3"}) {
    CAPTURE(gpus);
    std::vector<std::string> flags = ddp(gpus, exact);
    flags.emplace_back("--sync-bn");
    const std::string name = std::string("ranks-") + gpus[4];
    const ProgramResult result = scene.train(name, flags);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK((result.out + result.err).find("statistics over the global batch") != std::string::npos);
    const std::vector<Json> steps = events(scene.run(name), "step");
    REQUIRE(steps.size() == expected.size());
    // Sums in another order, in fp64, over 22 updates.
    for (size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      CHECK(steps[i].at("loss").get<double>() == Approx(expected[i].at("loss").get<double>()).epsilon(1e-9));
    }
    CHECK(last_loss(scene, name) == Approx(last_loss(scene, "one")).epsilon(1e-9));
  }

  std::vector<std::string> half = ddp("cpu:2", exact), rest = half;
  half.insert(half.end(), {"--sync-bn", "--steps", "13", "--schedule", "constant"});
  rest.insert(rest.end(), {"--sync-bn", "--steps", "22", "--schedule", "constant"});
  REQUIRE(scene.train("unbroken", rest).exit_code == 0);
  REQUIRE(scene.train("half", half).exit_code == 0);
  rest.insert(rest.end(), {"--resume", "half"});
  const ProgramResult result = scene.train("rest", rest);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  // The counters differ: the half evaluated at its own last step.
  for (const char* file : {"model.safetensors", "state.safetensors"}) {
    const auto bits = [&](const char* run) { return text_of(scene.run(run) / "checkpoints" / step_folder(22) / file); };
    CHECK(bits("rest") == bits("unbroken"));
  }
}

TEST_CASE("--sync-bn may come and go on resume, which says that numerics change, and is refused for dp",
          "[end_to_end]") {
  const Scene scene;
  const std::vector<std::string> short_run = {"--epochs", "1", "--schedule", "constant"};
  REQUIRE(scene.train("ranks", ddp("cpu:2", short_run)).exit_code == 0);
  const ProgramResult resumed = scene.train(
      "synced", ddp("cpu:2", {"--resume", "ranks", "--epochs", "2", "--schedule", "constant", "--sync-bn"}));
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK((resumed.out + resumed.err).find("parallel.sync_bn: false -> true (") != std::string::npos);
  for (const char* strategy : {"dp", "auto"}) {
    const ProgramResult refused = scene.train("never", {"--gpus", "cpu:2", "--strategy", strategy, "--sync-bn"});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("--strategy ddp") != std::string::npos);
  }
}

TEST_CASE("what only ranks have is refused without them", "[end_to_end]") {
  const Scene scene;
  const ProgramResult refused = scene.train("never", {"--gpus", "cpu:2", "--grad-dtype", "bf16"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("--strategy ddp") != std::string::npos);
}

TEST_CASE("a full disk ends ranks with the writer's exit code, and none is left waiting", "[end_to_end]") {
  const Scene scene;
  const ProgramResult result = scene.train("a", ddp("cpu:2", {"--width", "16"}), {.file_size_limit = 400 * 1024});
  INFO(result.err);
  CHECK(result.exit_code == 5);
  CHECK(result.err.find("checkpoint") != std::string::npos);
}
