// C++ 18: a resume failed, or landed on the wrong GPU, because state was loaded onto the device it was saved from.
#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

TEST_CASE("C++ 18: a run of two replicas goes on with one device, with three, and back", "[issues]") {
  const Scene scene;
  const std::vector<std::string> constant = {"--schedule", "constant"};
  const auto go_on = [&](const std::string& gpus, int epochs) {
    std::vector<std::string> flags = constant;
    flags.insert(flags.end(), {"--gpus", gpus, "--epochs", std::to_string(epochs), "--resume", "auto"});
    return scene.train("a", flags);
  };
  int epochs = 0;
  for (const char* gpus : {"cpu:2", "cpu", "cpu:3", "cpu:2"}) {
    const ProgramResult result = go_on(gpus, ++epochs);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(events(scene.run("a"), "step").size() == static_cast<size_t>(7 * epochs));
  }
  CHECK(scene.mgtrain({"checkpoint", "verify", "a"}).exit_code == 0);
}
