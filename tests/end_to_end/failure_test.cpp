// Every failure: its exit code, a message that names what and where, and nothing lost.
#include <csignal>
#include <cstdlib>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

void check_failure(const ProgramResult& result, int exit_code, const std::vector<std::string>& parts) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(result.err.find(part) != std::string::npos);
  }
  CHECK(result.err.find("terminate called") == std::string::npos);
  CHECK(result.err.find("Exception raised from") == std::string::npos);  // LibTorch's call stack
}

}  // namespace

TEST_CASE("wrong usage is exit 2, plan as well, and leaves no folder", "[end_to_end]") {
  const Scene scene;
  for (const char* command : {"train", "plan"}) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), command);
      return scene.mgtrain(std::move(more));
    };
    check_failure(with({"--bach", "16"}), 2, {"--bach", "--batch"});
    check_failure(with({"--set", "optim.lrr=1", "--data", "data"}), 2, {"optim.lrr", "optim.lr"});
    check_failure(with({"--gpus", "0", "--data", "data"}), 2, {"`0,`"});
    check_failure(with({"--data", "data", "--batch", "16", "--accumulate", "17"}), 2, {"train.accumulate"});
    check_failure(with({"--data", "nowhere"}), 3, {"nowhere"});
    check_failure(with({"--data", "data", "--init", "nothing.safetensors"}), 4, {"nothing.safetensors"});
    check_failure(with({"--data", "data", "--gpus", "0", "--missing-gpus", "sometimes"}), 2, {"sometimes"});
  }
  const ProgramResult unevaluated = scene.mgtrain({"--data", "synthetic:1x16x16@64", "--assert", "val.top1>=0.5"});
  check_failure(unevaluated, 2, {"train.assert", "--val"});
  CHECK_FALSE(std::filesystem::exists(scene.folder() / "runs"));
}

TEST_CASE("an existing run is neither overwritten nor mixed with another", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a", {"--epochs", "1"}).exit_code == 0);
  const std::string before = text_of(scene.run("a") / "metrics.jsonl");
  check_failure(scene.train("a"), 2, {"--resume auto", "--overwrite"});
  check_failure(scene.mgtrain({"plan", "--data", "data", "--output", "a"}), 2, {"--overwrite"});
  check_failure(scene.train("a", {"--resume", "auto", "--overwrite"}), 2, {"contradict"});
  CHECK(text_of(scene.run("a") / "metrics.jsonl") == before);

  std::filesystem::create_directories(scene.folder() / "a" / "mine");
  CHECK(scene.train("a", {"--epochs", "2", "--overwrite"}).exit_code == 0);
  CHECK(events(scene.run("a"), "start").size() == 1);
  CHECK(events(scene.run("a"), "step").size() == 14);
  CHECK_FALSE(std::filesystem::exists(scene.run("a") / "checkpoints" / step_folder(7) / "nothing"));
  CHECK(std::filesystem::exists(scene.folder() / "a" / "mine"));
}

TEST_CASE("an output that cannot be written is exit 5 before any data is read", "[end_to_end]") {
  const Scene scene;
  std::ofstream(scene.folder() / "file") << "mine";
  check_failure(scene.train("file"), 5, {"file"});
  check_failure(scene.train("file/below"), 5, {"file/below"});
  CHECK(text_of(scene.folder() / "file") == "mine");
  check_failure(scene.train("/proc/run"), 5, {"/proc/run", "--output"});
}

TEST_CASE("damaged data are exit 3 and name file and value", "[end_to_end]") {
  const Scene scene;
  const auto labels = scene.folder() / "data" / "train-labels-idx1-ubyte";
  std::filesystem::resize_file(labels, 50);
  check_failure(scene.train("a"), 3, {"train-labels-idx1-ubyte", "100"});

  // Behind a sound header: told by plan as well.
  write_tiny_data(scene.folder() / "data", 100, 42);
  REQUIRE(std::system(("gzip -k " + (scene.folder() / "data" / "*-ubyte").string() + " && rm " +
                       (scene.folder() / "data" / "*-ubyte").string())
                          .c_str()) == 0);
  std::filesystem::resize_file(scene.folder() / "data" / "train-images-idx3-ubyte.gz", 5000);
  check_failure(scene.train("b"), 3, {"train-images-idx3-ubyte.gz", "gzip"});
  check_failure(scene.mgtrain({"plan", "--data", "data"}), 3, {"train-images-idx3-ubyte.gz", "gzip"});
}

TEST_CASE("a loss that is not finite is exit 6; the checkpoints before it stay", "[end_to_end]") {
  const Scene scene;
  // The rate jumps at the second epoch.
  const ProgramResult result =
      scene.train("a", {"--schedule", "step", "--set", "optim.step_size=1e", "--set", "optim.gamma=1e30"});
  check_failure(result, 6, {"step ", "loss"});
  CHECK(result.last_line().starts_with("mgtrain: failed reason="));
  CHECK(result.last_line().find(" exit=6 ") != std::string::npos);
  CHECK(std::filesystem::is_directory(scene.run("a") / "checkpoints" / step_folder(7)));
  CHECK(scene.mgtrain({"checkpoint", "verify", "a"}).exit_code == 0);
  CHECK(events(scene.run("a"), "end").at(0).at("exit_code") == 6);
  // Nothing that is not finite was saved or evaluated.
  for (const auto& entry : std::filesystem::directory_iterator(scene.run("a") / "checkpoints"))
    CHECK(entry.path().filename().string() <= step_folder(9));
}

TEST_CASE("a full disk is exit 5: the checkpoints before stay whole, no litter", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a", {"--epochs", "1"}).exit_code == 0);
  // Room for the records, not for the weights of a wider net.
  const ProgramResult result = scene.train("b", {"--width", "16"}, {.file_size_limit = 200'000});
  check_failure(result, 5, {"checkpoints"});
  CHECK(result.last_line().find(" exit=5 ") != std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(scene.run("b") / "checkpoints"))
    CHECK_FALSE(entry.path().filename().string().starts_with(".tmp"));
  check_failure(scene.train("a", {"--resume", "auto", "--epochs", "1", "--width", "16"}, {.file_size_limit = 200'000}),
                4, {"model.width"});
  CHECK(scene.mgtrain({"checkpoint", "verify", "a"}).exit_code == 0);
}

TEST_CASE("weights that do not fit are exit 4, unless the head is asked to be new", "[end_to_end]") {
  const Scene scene;
  REQUIRE(scene.train("a", {"--epochs", "1"}).exit_code == 0);
  check_failure(scene.train("b", {"--init", "a", "--width", "4"}), 4, {"conv1.weight", "shape"});
  const ProgramResult fresh = scene.train("c", {"--init", "a", "--reset-head", "--epochs", "1"});
  INFO(fresh.err);
  CHECK(fresh.exit_code == 0);
  CHECK(fresh.err.find("fc.weight") != std::string::npos);
  const ProgramResult frozen = scene.train("d", {"--init", "a", "--freeze", "conv1,layer1", "--epochs", "1"});
  CHECK(frozen.exit_code == 0);
  check_failure(scene.train("e", {"--freeze", "layer9"}), 2, {"layer9"});
}
