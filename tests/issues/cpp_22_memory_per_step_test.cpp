// C++ 22: memory grew with each step, as the running loss kept the graph alive.
#include <cstdlib>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

namespace {

/// 400 in the ordinary run; MGTEST_LEAK_STEPS=2000 for the whole trial.
size_t num_steps() {
  const char* given = std::getenv("MGTEST_LEAK_STEPS");
  return given != nullptr ? std::stoul(given) : 400;
}

}  // namespace

TEST_CASE("C++ 22: memory is flat from step to step, with metrics, evaluation and checkpoints", "[issues]") {
  const Scene scene(96, 8);
  const size_t steps = num_steps();
  Program program(mgtrain_path(),
                  scene.arguments("a", {"--gpus", "cpu:2", "--batch", "4", "--epochs", "1000", "--steps",
                                        std::to_string(steps), "--log-every", "20", "--eval-every", "50",
                                        "--save-every", "50", "--set", "output.tensorboard=true"}),
                  {.folder = scene.folder()});
  const auto reached = [&](size_t step) {
    return program.wait_until([&] { return events(scene.run("a"), "step").size() * 20 >= step; });
  };
  REQUIRE(reached(120));
  const uint64_t warm = program.resident_bytes();
  REQUIRE(reached(steps - 20));
  const uint64_t later = program.resident_bytes();
  CHECK(program.wait().exit_code == 0);
  REQUIRE(warm > 0);
  // A graph of this net keeps 150 KB: 260 of them, 39 MB.
  CHECK(later < warm + (uint64_t{8} << 20));
}
