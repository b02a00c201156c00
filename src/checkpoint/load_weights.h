// `--init`: weights to start a new run from, out of a safetensors file, a checkpoint or a run. Nothing is left at its
// random value without a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/weights_file.h"
#include "optim/optimizer.h"

namespace mgtrain {

struct LoadedWeights {
  std::filesystem::path file;
  std::string prefix;                // removed from all names of the file
  int64_t loaded = 0;                // tensors copied
  std::vector<std::string> fresh;    // of the model, left as they were
  std::vector<std::string> ignored;  // of the file, not in the model
};

/// Copies weights into the model's tensors (parameters and buffers in canonical names), in place, one at a time. A
/// narrower float type of the file is widened. Throws CheckpointError as open_weights() and fit_weights() do, and
/// nothing is copied then.
LoadedWeights load_weights(FileSystem& files, const InitOptions& options, const NamedTensors& into);

}  // namespace mgtrain
