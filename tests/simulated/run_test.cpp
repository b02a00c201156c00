// Whole runs of mgtrain over simulated devices: plan, training, evaluation, prediction, resume, failure.
#include <sched.h>

#include "checkpoint/snapshot.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor_file.h"
#include "end_to_end/scene.h"
#include "simulated/sim_training.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

using Environment = std::map<std::string, std::string>;

/// mgtrain, by the test program, in the scene's folder.
ProgramResult mgtrain_on_sim(const Scene& scene, std::vector<std::string> arguments, Environment environment = {}) {
  arguments.insert(arguments.begin(), "mgtrain");
  return mgtrain_program(std::move(arguments), {.folder = scene.folder(), .environment = std::move(environment)});
}

ProgramResult train(const Scene& scene, const std::string& output, std::vector<std::string> more,
                    Environment environment = {}) {
  std::vector<std::string> arguments = scene.arguments(output, std::move(more));
  arguments.insert(arguments.end(), {"--memory-format", "nchw"});
  return mgtrain_on_sim(scene, std::move(arguments), std::move(environment));
}

/// A core that this process may use.
std::string first_core() {
  cpu_set_t cores;
  sched_getaffinity(0, sizeof cores, &cores);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) return std::to_string(core);
  return "0";
}

constexpr int64_t kSteps = 21;  // of the scene's run: 3 epochs of 7

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a run on one simulated device leaves the checkpoint and the log of the CPU", "[simulated]") {
  const Scene scene;
  // One core, so that the CPU computes with one thread as well.
  std::vector<std::string> arguments = scene.arguments("cpu", {"--memory-format", "nchw"});
  arguments.insert(arguments.begin(), {"-c", first_core(), MGTRAIN_REAL_PROGRAM, "train"});
  REQUIRE(Program("/usr/bin/taskset", arguments, {.folder = scene.folder()}).wait().exit_code == 0);
  const ProgramResult result = train(scene, "sim", {"--gpus", "sim:1"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(events(scene.run("sim"), "start").at(0).at("devices").at(0) == "sim:0");
  CHECK(checkpoint_bits(scene.run("sim"), kSteps) == checkpoint_bits(scene.run("cpu"), kSteps));
  CHECK(numeric_log(scene.run("sim")) == numeric_log(scene.run("cpu")));
  CHECK(events(scene.run("sim"), "eval").size() == 3);
}

TEST_CASE("a data-parallel run on two simulated devices trains, repeats its bits, evaluates and predicts",
          "[simulated]") {
  const Scene scene;
  const ProgramResult first = train(scene, "first", {"--gpus", "sim:2", "--assert", "val.top1>=0.5"});
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  REQUIRE(train(scene, "second", {"--gpus", "sim:2"}).exit_code == 0);
  CHECK(checkpoint_bits(scene.run("first"), kSteps) == checkpoint_bits(scene.run("second"), kSteps));
  CHECK(numeric_log(scene.run("first")) == numeric_log(scene.run("second")));
  const ProgramResult eval = mgtrain_on_sim(scene, {"eval", "first", "--gpus", "sim:4", "--json"});
  INFO(eval.err);
  REQUIRE(eval.exit_code == 0);
  const Json last = events(scene.run("first"), "eval").back();
  CHECK(Json::parse(eval.out).at("top1") == last.at("top1"));
  const std::string set = "data/t10k-images-idx3-ubyte";
  const ProgramResult predicted =
      mgtrain_on_sim(scene, {"predict", "first", set + ":0", set + ":1", set + ":2", "--gpus", "sim:2"});
  INFO(predicted.err);
  CHECK(predicted.exit_code == 0);
  CHECK(says(predicted.out, set + ":2: "));
}

TEST_CASE("a run of ranks on simulated devices trains, repeats its bits, and resumes on one", "[simulated]") {
  const Scene scene;
  std::vector<std::string> ranks = {"--gpus", "sim:3", "--strategy", "ddp"};
  if (GENERATE(false, true)) ranks.emplace_back("--sync-bn");
  const ProgramResult first = train(scene, "first", ranks);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  REQUIRE(train(scene, "second", ranks).exit_code == 0);
  CHECK(checkpoint_bits(scene.run("first"), kSteps) == checkpoint_bits(scene.run("second"), kSteps));
  CHECK(events(scene.run("first"), "eval").size() == 3);
  const ProgramResult longer =
      train(scene, "longer", {"--resume", "first", "--epochs", "4", "--resume-changes", "allow", "--gpus", "sim:1"});
  INFO(longer.err);
  CHECK(longer.exit_code == 0);
}

TEST_CASE("a device that fails under a rank ends the run with exit code 7 and its name, full memory with 8",
          "[simulated]") {
  const Scene scene;
  const std::vector<std::string> ranks = {"--gpus", "sim:2", "--strategy", "ddp"};
  const ProgramResult failed = train(scene, "failed", ranks, {{"MGTEST_SIM_FAULT", "1:2500"}});
  INFO(failed.err);
  CHECK(failed.exit_code == 7);
  CHECK(says(failed.err, "sim:1"));
  const ProgramResult full =
      train(scene, "full", {"--gpus", "sim:2", "--strategy", "ddp", "--batch", "96"}, {{"MGTEST_SIM_CAP", "1200000"}});
  INFO(full.err);
  CHECK(full.exit_code == 8);
  CHECK(says(full.err, "out of memory on sim:"));
}

TEST_CASE("plan shows the simulated devices and the strategy over them", "[simulated]") {
  const Scene scene;
  std::vector<std::string> arguments = scene.arguments("never", {"--gpus", "sim:4", "--primary", "2"});
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const ProgramResult result = mgtrain_on_sim(scene, arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json plan = Json::parse(result.out);
  CHECK(plan.at("strategy") == "dp");
  std::vector<std::string> labels;
  for (const Json& device : plan.at("devices")) labels.push_back(device.at("label"));
  CHECK(labels == std::vector<std::string>{"sim:2", "sim:0", "sim:1", "sim:3"});
  CHECK(mgtrain_on_sim(scene, {"plan", "--data", "data", "--gpus", "sim:5"}).exit_code == 7);
}

TEST_CASE("a run resumes on other devices: sim:1, sim:0, CPU replicas", "[simulated]") {
  const Scene scene;
  const std::vector<std::string> on_two = {"--gpus", "sim:2", "--primary", "1", "--save-every", "2"};
  REQUIRE(train(scene, "unbroken", on_two).exit_code == 0);
  REQUIRE(train(scene, "run", on_two, {{"MGTEST_SIM_FAULT", "1:3500"}}).exit_code == 7);
  CHECK(std::filesystem::exists(scene.run("run") / "checkpoints" / step_folder(4)));
  SECTION("the same devices in another order") {
    const ProgramResult result = train(scene, "run", {"--gpus", "sim:2", "--save-every", "2", "--resume", "auto"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(checkpoint_bits(scene.run("run"), kSteps) == checkpoint_bits(scene.run("unbroken"), kSteps));
  }
  SECTION("two replicas on the CPU") {  // whose backward pass has two intra-op threads: not the same bits
    const ProgramResult result = train(scene, "run", {"--gpus", "cpu:2", "--save-every", "2", "--resume", "auto"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const double expected = events(scene.run("unbroken"), "eval").back().at("loss");
    CHECK(std::abs(events(scene.run("run"), "eval").back().at("loss").get<double>() - expected) < 0.02 * expected);
  }
}

TEST_CASE("saved on sim:1, resumed on sim:0 and on the CPU: the bits of an unbroken training", "[simulated]") {
  const std::string optimizer = GENERATE("sgd", "adam");
  const TemporaryFolder folder;
  const auto files = make_posix_file_system();
  CheckpointStore store(*files, folder.path(), /*keep=*/2);
  Training unbroken(sim_devices({2}), optimizer), saved(sim_devices({1}), optimizer);
  unbroken.train(0, 4, 8);
  saved.train(0, 2, 8);
  store.commit(2, checkpoint_files({.model = saved.strategy->full_state(), .optimizer = saved.optimizer.state()}));
  const auto checkpoint = store.folder_of(2);
  for (const StrategyOptions& options : {sim_devices({0}), cpu_replicas(1)}) {
    CAPTURE(optimizer, options.device_labels);
    Training resumed(options, optimizer);
    load_strictly(read_model(*files, checkpoint), resumed.strategy->full_state(), "checkpoint");
    resumed.strategy->state_changed();
    resumed.optimizer.load_state(read_optimizer_state(*files, checkpoint));
    CHECK(differing(resumed.state(), saved.state()).empty());
    const ThreadCountGuard one(1);
    resumed.train(2, 4, 8);
    CHECK(differing(resumed.state(), unbroken.state()).empty());
  }
}

TEST_CASE("a device that fails in a run ends it with exit code 7, and resuming gives the bits of an unbroken run",
          "[simulated]") {
  const std::string device = GENERATE("0", "1");
  CAPTURE(device);
  const Scene scene;
  const std::vector<std::string> arguments = {"--gpus", "sim:2", "--save-every", "2"};
  REQUIRE(train(scene, "unbroken", arguments).exit_code == 0);
  const ProgramResult failed = train(scene, "run", arguments, {{"MGTEST_SIM_FAULT", device + ":2500"}});
  INFO(failed.err);
  CHECK(failed.exit_code == 7);
  CHECK(says(failed.err, "failure on sim:" + device));
  std::vector<std::string> again = arguments;
  again.insert(again.end(), {"--resume", "auto"});
  const ProgramResult resumed = train(scene, "run", again);
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(says(resumed.err, "step"));
  CHECK(checkpoint_bits(scene.run("run"), kSteps) == checkpoint_bits(scene.run("unbroken"), kSteps));
}

TEST_CASE("wherever a device fails - set-up, optimizer, forward, backward, update, a later step - it is exit code 7",
          "[simulated]") {
  const std::string nth = GENERATE("10", "150", "260", "450", "640", "1700");
  CAPTURE(nth);
  const Scene scene;
  const ProgramResult result = train(scene, "run", {"--gpus", "sim:2"}, {{"MGTEST_SIM_FAULT", "0:" + nth}});
  INFO(result.err);
  CHECK(result.exit_code == 7);
  CHECK(says(result.err, "sim:0"));
  CHECK_FALSE(says(result.err, "a bug in mgtrain"));
}

TEST_CASE("a batch too large for one device ends the run with exit code 8, and trains on two", "[simulated]") {
  const Scene scene;
  const Environment small = {{"MGTEST_SIM_CAP", "2500000"}};
  const std::vector<std::string> one = {"--batch", "96", "--epochs", "1", "--gpus", "sim:1"};
  const ProgramResult full = train(scene, "full", one, small);
  INFO(full.err);
  CHECK(full.exit_code == 8);
  CHECK(says(full.err, "out of memory on sim:0"));
  CHECK(says(full.err, "try a batch of 48 at once"));
  const ProgramResult split = train(scene, "split", {"--batch", "96", "--epochs", "1", "--gpus", "sim:2"}, small);
  INFO(split.err);
  CHECK(split.exit_code == 0);
}

TEST_CASE("mgtrain itself has no simulated devices", "[simulated]") {
  const Scene scene;
  const ProgramResult result =
      Program(MGTRAIN_REAL_PROGRAM, {"plan", "--data", "data", "--gpus", "sim:2"}, {.folder = scene.folder()}).wait();
  CHECK(result.exit_code == 2);
  CHECK(says(result.err, "\"sim:2\" is not a device"));
}

}  // namespace mgtrain::test
