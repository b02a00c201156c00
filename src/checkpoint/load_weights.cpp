#include "checkpoint/load_weights.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/resume.h"
#include "checkpoint/tensor_file.h"
#include "checkpoint/weight_match.h"

namespace mgtrain {

namespace {

constexpr char kHeadPrefix[] = "fc.";

bool in_head(const std::string& name) { return name.rfind(kHeadPrefix, 0) == 0; }

NamedTensors without_head(const NamedTensors& tensors) {
  NamedTensors rest;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(rest),
               [](const auto& named) { return !in_head(named.first); });
  return rest;
}

std::filesystem::path weights_file(FileSystem& files, const std::filesystem::path& path) {
  if (files.is_directory(path)) return checkpoint_of_run(files, path, "") / "model.safetensors";
  if (!files.is_file(path))
    throw CheckpointError(path.string() +
                          ": no such file or folder; --init takes a .safetensors file, a checkpoint or a run folder");
  return path;
}

/// What would make the load go through, where something would.
std::string way_out(const WeightMatch& match) {
  const bool only_head = std::all_of(match.misshapen.begin(), match.misshapen.end(), in_head);
  if (match.pairs.empty())
    return ". No tensor fits: is it a network of another kind, or are its names prefixed (such as module.)?";
  if (!match.misshapen.empty())
    return only_head ? ". Give --reset-head for a new classification layer"
                     : ". --model, --width and --stem must be those the file was made with";
  return ". Give --allow-missing to leave what the file lacks at random values and ignore what the model lacks";
}

}  // namespace

LoadedWeights load_weights(FileSystem& files, const InitOptions& options, const NamedTensors& into) {
  LoadedWeights result{.file = weights_file(files, options.path)};
  const NamedTensors all = read_safetensors(files, result.file);
  const NamedTensors from = options.reset_head ? without_head(all) : all;
  const NamedTensors targets = options.reset_head ? without_head(into) : into;
  const WeightMatch match = match_weights(from, targets, Conversion::kWidens);

  const bool partial = !match.missing.empty() || !match.extra.empty();
  if (match.pairs.empty() || !match.misshapen.empty() || (partial && !options.allow_missing))
    throw CheckpointError(describe_mismatch(match, result.file.string()) + way_out(match));

  copy_weights(match.pairs);
  result.loaded = static_cast<int64_t>(match.pairs.size());
  result.fresh = match.missing;
  result.ignored = match.extra;
  if (options.reset_head) {
    for (const auto& [name, tensor] : into) {
      if (in_head(name)) result.fresh.push_back(name);
    }
  }
  return result;
}

}  // namespace mgtrain
