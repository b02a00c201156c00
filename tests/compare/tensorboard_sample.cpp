// Writes the event file of a small run, resumed once, to the folder given; tensorboard_read_back.py reads it with
// Python's tensorboard and compares.
#include <cstdio>
#include <exception>

#include "base/clock.h"
#include "base/files.h"
#include "observe/sample_reports.h"
#include "observe/tensorboard.h"

namespace {

using namespace mgtrain;

void write_sample(const std::filesystem::path& folder) {
  const auto files = make_posix_file_system();
  const SystemClock clock;
  const std::string name = event_file_name(clock.unix_seconds());
  uint64_t length = 0;
  {
    TensorBoardWriter first(*files, folder, name, std::nullopt, clock);
    for (int64_t step = 1; step <= 4; ++step) {
      StepReport report = sample_step(step);
      report.grad_norm = 0.5 * static_cast<double>(step);
      first.on_step(report);
      if (step == 2) length = first.length();
    }
  }
  TensorBoardWriter second(*files, folder, name, length, clock);
  for (int64_t step = 3; step <= 5; ++step) second.on_step(sample_step(step));
  second.on_eval(sample_eval(int64_t{1} << 33));
  second.on_end(sample_end());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: tensorboard_sample FOLDER\n", stderr), 2;
  try {
    write_sample(argv[1]);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "tensorboard_sample: %s\n", problem.what());
    return 1;
  }
  return 0;
}
