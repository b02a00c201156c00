// C++ 22: memory grew with each step, as the running loss kept the graph alive.
#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

TEST_CASE("C++ 22: memory is flat over 2,000 steps, with metrics, evaluation and checkpoints", "[issues]") {
  const Scene scene(96, 8);
  const std::string gpus = GENERATE("cpu", "cpu:2");
  CAPTURE(gpus);
  Program program(mgtrain_path(),
                  scene.arguments("a", {"--gpus", gpus, "--width", "1", "--batch", "4", "--epochs", "1000", "--steps",
                                        "2000", "--log-every", "100", "--eval-every", "500", "--save-every", "500",
                                        "--set", "output.tensorboard=true"}),
                  {.folder = scene.folder()});
  const auto reached = [&](size_t steps) {
    return program.wait_until([&] { return events(scene.run("a"), "step").size() * 100 >= steps; });
  };
  REQUIRE(reached(600));
  const uint64_t warm = program.resident_bytes();
  REQUIRE(reached(1900));
  const uint64_t later = program.resident_bytes();
  CHECK(program.wait().exit_code == 0);
  REQUIRE(warm > 0);
  // 1,300 graphs of this net would be 100 MB and more.
  CHECK(later < warm + (uint64_t{8} << 20));
}
