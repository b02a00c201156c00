#include "observe/sample_trace.h"

#include <array>

#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;

TEST_CASE("the sample trace has a line an update with step, epoch and indices, and goes on after a resume",
          "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.sync_directory("/");
  const std::array<int64_t, 3> indices = {7, 0, 123456789012};
  uint64_t length = 0;
  {
    SampleTrace trace(files, "run/samples.txt", std::nullopt);
    trace.on_samples(1, 0, indices);
    length = trace.length();
    trace.on_samples(2, 0, std::span(indices).first(1));
    trace.flush();
  }
  files.restart(MemoryFileSystem::Survives::kSynced);  // the power went
  CHECK(files.get("run/samples.txt") == "1 0 7 0 123456789012\n2 0 7\n");
  SampleTrace resumed(files, "run/samples.txt", length);
  resumed.on_samples(2, 1, std::span(indices).last(1));
  CHECK(files.get("run/samples.txt") == "1 0 7 0 123456789012\n2 1 123456789012\n");
}

}  // namespace
}  // namespace mgtrain
