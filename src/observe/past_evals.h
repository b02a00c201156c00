// The evaluations that metrics.jsonl tells of: what a resumed run knows of its part before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/files.h"
#include "observe/observer.h"

namespace mgtrain {

struct PastEvals {
  std::optional<EvalReport> last, best;  // without confusion matrix, which the file does not hold
};

/// Of the first `length` bytes of a metrics.jsonl. A file that is missing, or lines that are no events, tell nothing.
PastEvals past_evals(FileSystem& files, const std::filesystem::path& metrics, uint64_t length);

}  // namespace mgtrain
