// samples.txt of --trace-samples: which samples each optimizer update used, in their order; what a person compares
// to see that two runs, or a run and its resumption, saw the same data. One line an update:
//   STEP EPOCH INDEX INDEX ...
#pragma once

#include <span>

#include "observe/run_file.h"

namespace mgtrain {

class SampleTrace {
 public:
  /// `keep` as in RunFile. Every method throws OutputError if the file cannot be written.
  SampleTrace(FileSystem& files, std::filesystem::path file, std::optional<uint64_t> keep);

  /// `step`: finished updates, this one included; `epoch` 0-based; indices into the training set.
  void on_samples(int64_t step, int64_t epoch, std::span<const int64_t> indices);
  void flush() { file_.sync(); }
  [[nodiscard]] uint64_t length() const { return file_.length(); }

 private:
  RunFile file_;
};

}  // namespace mgtrain
