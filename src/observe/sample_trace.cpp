#include "observe/sample_trace.h"

#include <string>
#include <utility>

namespace mgtrain {

SampleTrace::SampleTrace(FileSystem& files, std::filesystem::path file, std::optional<uint64_t> keep)
    : file_(files, std::move(file), keep) {}

void SampleTrace::on_samples(int64_t step, int64_t epoch, std::span<const int64_t> indices) {
  std::string line = std::to_string(step) + ' ' + std::to_string(epoch);
  for (const int64_t index : indices) line += ' ' + std::to_string(index);
  file_.write(line + '\n');
}

}  // namespace mgtrain
