// `--init`: weights to start a new run from, out of a safetensors file, a checkpoint or a run. Nothing is left at its
// random value without a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "optim/optimizer.h"

namespace mgtrain {

struct InitOptions {
  std::filesystem::path path;  // a .safetensors file, a checkpoint folder or a run folder (its best/, else the newest)
  bool reset_head = false;     // fc.* of the model keeps its random values, whatever the file holds
  bool allow_missing = false;  // tensors the file lacks keep theirs; tensors the model lacks are ignored
};

struct LoadedWeights {
  std::filesystem::path file;
  int64_t loaded = 0;                // tensors copied
  std::vector<std::string> fresh;    // of the model, left as they were
  std::vector<std::string> ignored;  // of the file, not in the model
};

/// Copies weights into the model's tensors (parameters and buffers in canonical names), in place. A narrower float
/// type of the file is widened. Throws CheckpointError, with counts and up to 10 names, for a tensor of another shape,
/// for missing or extra ones unless allowed, and always when no name matches; nothing is copied then.
LoadedWeights load_weights(FileSystem& files, const InitOptions& options, const NamedTensors& into);

}  // namespace mgtrain
