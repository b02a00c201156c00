// C++ 16: an optimizer loaded from an archive kept its constructor's learning rate.
#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

TEST_CASE("C++ 16: after a resume the schedule's rate is in force, not the one given at the start", "[issues]") {
  const Scene scene;
  const std::vector<std::string> decaying = {"--lr", "0.1", "--schedule", "step", "--set", "optim.step_size=1e"};
  std::vector<std::string> first = decaying;
  first.insert(first.end(), {"--epochs", "1"});
  REQUIRE(scene.train("a", first).exit_code == 0);
  std::vector<std::string> second = decaying;  // the rate of the command line is still 0.1
  second.insert(second.end(), {"--epochs", "2", "--resume", "auto"});
  const ProgramResult result = scene.train("a", second);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const std::vector<Json> steps = events(scene.run("a"), "step");
  REQUIRE(steps.size() == 14);
  CHECK(steps[6].at("learning_rate") == 0.1);
  CHECK(steps[7].at("learning_rate").get<double>() == Approx(0.01).epsilon(1e-12));
  CHECK(result.out.find("lr=0.01") != std::string::npos);
}
