#include "observe/tensorboard.h"

#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "observe/event_records.h"
#include "observe/sample_reports.h"
#include "support/catch.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;

constexpr char kName[] = "events.out.tfevents.1.host.2.0";
const std::string kPath = std::string("run/") + kName;

TEST_CASE("an event file is named as TensorBoard expects", "[observe]") {
  const std::string name = event_file_name(1764500000.9);
  CHECK(name.starts_with("events.out.tfevents.1764500000."));
  CHECK(name.ends_with("." + std::to_string(getpid()) + ".0"));
  CHECK(name.find('/') == std::string::npos);
}

TEST_CASE("an event file begins with its version and holds every documented tag at its step", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  HandClock clock(1000);
  TensorBoardWriter writer(files, "run", kName, std::nullopt, clock);
  StepReport step = sample_step(50);
  step.grad_norm = 0.75;
  clock.advance(5);
  writer.on_step(step);
  writer.on_eval(sample_eval(157));
  const EventFileContent content = read_event_file(files.get(kPath));
  CHECK(content.file_version == "brain.Event:2");
  struct Expected {
    const char* tag;
    int64_t step;
    float value;
  };
  const Expected expected[] = {{"train/loss", 50, 0.045f}, {"train/top1", 50, 0.5f},
                               {"train/lr", 50, 0.1f},     {"throughput/images_per_second", 50, 1234.4f},
                               {"grad_norm", 50, 0.75f},   {"val/loss", 157, 0.75f},
                               {"val/top1", 157, 0.7f},    {"val/top5", 157, 1.0f}};
  REQUIRE(content.scalars.size() == std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    CHECK(content.scalars[i].tag == expected[i].tag);
    CHECK(content.scalars[i].step == expected[i].step);
    CHECK(content.scalars[i].value == expected[i].value);
    CHECK(content.scalars[i].wall_time == 1005);
  }
}

TEST_CASE("a gradient norm that was not computed has no scalar", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  const HandClock clock;
  TensorBoardWriter writer(files, "run", kName, std::nullopt, clock);
  writer.on_step(sample_step(1));
  CHECK(read_event_file(files.get(kPath)).values("grad_norm").empty());
}

TEST_CASE("after a resume each step stands once in the event file, which keeps one version record", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  const HandClock clock;
  uint64_t length_at_checkpoint = 0;
  {
    TensorBoardWriter first(files, "run", kName, std::nullopt, clock);
    CHECK(first.name() == kName);
    for (int64_t step = 1; step <= 3; ++step) {
      first.on_step(sample_step(step));
      if (step == 2) length_at_checkpoint = first.length();
    }
  }
  files.truncate(kPath, files.size(kPath) - 3);  // killed while writing
  TensorBoardWriter second(files, "run", kName, length_at_checkpoint, clock);
  second.on_step(sample_step(3));
  const EventFileContent content = read_event_file(files.get(kPath));
  std::vector<int64_t> steps;
  for (const EventScalar& scalar : content.scalars) {
    if (scalar.tag == "train/loss") steps.push_back(scalar.step);
  }
  CHECK(steps == std::vector<int64_t>{1, 2, 3});
  CHECK(second.length() == files.get(kPath).size());
}

TEST_CASE("flush and the end of the run take the event file to the disk", "[observe]") {
  for (const bool at_end : {false, true}) {
    MemoryFileSystem files;
    files.make_directories("run");
    files.sync_directory("/");
    const HandClock clock;
    TensorBoardWriter writer(files, "run", kName, std::nullopt, clock);
    writer.on_step(sample_step(1));
    at_end ? writer.on_end(sample_end()) : writer.flush();
    const std::string flushed = files.get(kPath);
    writer.on_step(sample_step(2));
    files.restart(MemoryFileSystem::Survives::kSynced);  // the power went
    CHECK(files.get(kPath) == flushed);
  }
}

TEST_CASE("an event file on a full disk is an output error and stays readable", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  const HandClock clock;
  TensorBoardWriter writer(files, "run", kName, std::nullopt, clock);
  writer.on_step(sample_step(1));
  files.set_capacity(writer.length() + 20);
  CHECK_THROWS_AS(writer.on_step(sample_step(2)), OutputError);
  CHECK(read_event_file(files.get(kPath)).values("train/loss").size() == 1);
}

}  // namespace
}  // namespace mgtrain
