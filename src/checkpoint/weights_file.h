// What `--init` names, looked at before anything is built: a safetensors file in torchvision's names, a checkpoint or
// a run. Says whether it fits a model, and how to convert what is not read. Torch-free; values are not read here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/weight_match.h"
#include "model/resnet_spec.h"

namespace mgtrain {

struct InitOptions {
  std::filesystem::path path;  // a .safetensors file, a checkpoint folder or a run folder (its best/, else the newest)
  bool reset_head = false;     // fc.* of the model keeps its random values, whatever the file holds
  bool allow_missing = false;  // tensors the file lacks keep theirs; tensors the model lacks are ignored
};

struct WeightsFile {
  std::filesystem::path file;
  std::string prefix;                // "module._orig_mod.": what all names carried; removed from `tensors`
  std::vector<TensorEntry> tensors;  // in file order
};

/// Reads the header of the file, or of the checkpoint's, which is verified. Prefixes that wrappers put before all
/// names (module., _orig_mod., model., also one after the other) are removed. A file of PyTorch's own kind (a zip
/// archive or a pickle, whatever its name) is refused unread, with the command that converts it; `program`: the running
/// executable, to tell where the script lies. Throws CheckpointError.
WeightsFile open_weights(FileSystem& files, const std::filesystem::path& path,
                         const std::filesystem::path& program = {});

struct WeightsFit {
  WeightMatch match;              // without the head where that is new
  std::vector<std::string> head;  // of the model, kept random because asked for
  std::vector<std::string>
      counters;  // num_batches_tracked of the model, which a file from before PyTorch 0.4.1 has not
};

/// How the file fits a model's tensors. Throws CheckpointError, with counts, up to 10 names a fault and a way out: for
/// a tensor of another shape or type, for missing or extra ones unless allowed, and always when nothing fits.
WeightsFit fit_weights(const WeightsFile& weights, const InitOptions& options, const std::vector<TensorEntry>& model);

/// Names, types and shapes of a network's parameters and buffers; `float_dtype`: "F32" or "F64".
std::vector<TensorEntry> state_entries(const ResNetSpec& spec, const std::string& float_dtype);

/// What a person should know of a file that fits, a line each.
std::vector<std::string> describe_weights(const WeightsFile& weights, const WeightsFit& fit);

/// "scripts/pt_to_safetensors.py a.pth a.safetensors", to be pasted into a shell. The script is looked for where the
/// program was built or installed.
std::string conversion_command(FileSystem& files, const std::filesystem::path& program,
                               const std::filesystem::path& file);

}  // namespace mgtrain
