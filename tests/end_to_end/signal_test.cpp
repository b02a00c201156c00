// SIGINT and SIGTERM: the step is finished, a checkpoint saved, the exit code 130 or 143; before step 1 at once.
#include <csignal>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

size_t num_steps(const std::filesystem::path& run) { return events(run, "step").size(); }

}  // namespace

TEST_CASE("a stop signal saves a checkpoint of the current step, and the run resumes to the same bits",
          "[end_to_end]") {
  const Scene scene;
  const std::vector<std::string> flags = {"--epochs", "12", "--trace-samples"};
  REQUIRE(scene.train("whole", flags).exit_code == 0);
  const int signal = GENERATE(SIGTERM, SIGINT);
  CAPTURE(signal);
  std::vector<std::string> resuming = flags;
  resuming.insert(resuming.end(), {"--resume", "auto"});
  ProgramResult result;
  for (const size_t stop_after : {2, 17, 40}) {
    Program program(mgtrain_path(), scene.arguments("cut", resuming), {.folder = scene.folder()});
    REQUIRE(program.wait_until([&] { return num_steps(scene.run("cut")) >= stop_after; }));
    program.send(signal);
    result = program.wait();
    INFO(result.err);
    if (result.exit_code == 0) continue;  // the signal came after the last step
    CHECK(result.exit_code == (signal == SIGINT ? 130 : 143));
    CHECK(result.last_line().starts_with(std::string("mgtrain: stopped reason=") +
                                         (signal == SIGINT ? "SIGINT" : "SIGTERM")));
    CHECK(scene.mgtrain({"checkpoint", "verify", "cut"}).exit_code == 0);
  }
  result = scene.train("cut", resuming);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(checkpoint_bits(scene.run("cut"), 84) == checkpoint_bits(scene.run("whole"), 84));
  CHECK(numeric_log(scene.run("cut")) == numeric_log(scene.run("whole")));
  CHECK(text_of(scene.run("cut") / "samples.txt") == text_of(scene.run("whole") / "samples.txt"));
}

TEST_CASE("a second SIGINT leaves at once", "[end_to_end]") {
  const Scene scene;
  Program program(mgtrain_path(), scene.arguments("a", {"--epochs", "1000000"}), {.folder = scene.folder()});
  REQUIRE(program.wait_until([&] { return num_steps(scene.run("a")) >= 3; }));
  program.send(SIGSTOP);  // both signals are there when it goes on
  program.send(SIGINT);
  program.send(SIGCONT);
  program.send(SIGINT);
  CHECK(program.wait().exit_code == 130);
}

TEST_CASE("a signal before step 1 ends the process with nothing to save", "[end_to_end]") {
  const Scene scene;
  Program program(mgtrain_path(), scene.arguments("a"), {.folder = scene.folder()});
  program.send(SIGTERM);
  const ProgramResult result = program.wait();
  // Before its handlers are installed the system ends it, with the same code for a shell.
  CHECK(result.exit_code == 143);
  CHECK_FALSE(std::filesystem::exists(scene.run("a") / "checkpoints"));
}
