// Row 70 (pytorch/pytorch#24234, allenai/allennlp#3082): the event file of a short run is empty.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "observe/event_records.h"
#include "observe/sample_reports.h"
#include "observe/tensorboard.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mgtrain {
namespace {

// Three steps and an evaluation reported in a process of its own, which then ends as `leave` has it.
template <typename Leave>
EventFileContent event_file_of_three_steps(Leave leave) {
  const test::TemporaryFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto files = make_posix_file_system();
    const SystemClock clock;
    TensorBoardWriter writer(*files, folder.path(), "events.out.tfevents.1.host.2.0", std::nullopt, clock);
    for (int64_t step = 1; step <= 3; ++step) writer.on_step(sample_step(step));
    writer.on_eval(sample_eval(3));
    leave(writer);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  const auto files = make_posix_file_system();
  return read_event_file(read_text(*files, folder.path() / "events.out.tfevents.1.host.2.0"));
}

void check_all_scalars(const EventFileContent& content) {
  CHECK(content.file_version == "brain.Event:2");
  CHECK(content.values("train/loss") == std::vector<float>{2.25f, 1.125f, 0.75f});
  CHECK(content.values("train/lr") == std::vector<float>{0.1f, 0.1f, 0.1f});
  CHECK(content.values("val/top1") == std::vector<float>{0.7f});
}

TEST_CASE("the event file of a three-step run that ends well holds every scalar", "[issues]") {
  check_all_scalars(event_file_of_three_steps([](TensorBoardWriter& writer) { writer.on_end(sample_end()); }));
}

TEST_CASE("the event file of a three-step run that ends with exit 6 holds every scalar", "[issues]") {
  check_all_scalars(event_file_of_three_steps([](TensorBoardWriter&) { _exit(6); }));
}

TEST_CASE("the event file of a three-step run killed by SIGKILL holds every scalar", "[issues]") {
  check_all_scalars(event_file_of_three_steps([](TensorBoardWriter&) { raise(SIGKILL); }));
}

}  // namespace
}  // namespace mgtrain
