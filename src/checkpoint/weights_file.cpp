#include "checkpoint/weights_file.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "checkpoint/resume.h"

namespace mgtrain {

namespace {

using Path = std::filesystem::path;

constexpr std::string_view kHeadPrefix = "fc.";
constexpr std::string_view kCounterSuffix = ".num_batches_tracked";
// DataParallel and DistributedDataParallel, torch.compile, Lightning and other trainers.
constexpr std::array<std::string_view, 3> kWrapperPrefixes = {"module.", "_orig_mod.", "model."};
constexpr char kScript[] = "pt_to_safetensors.py";

bool in_head(const std::string& name) { return name.starts_with(kHeadPrefix); }
bool is_counter(const std::string& name) { return name.ends_with(kCounterSuffix); }
bool carries(const std::string& name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix);
}

/// zip archives (torch.save since PyTorch 1.6, TorchScript) and pickles (before). A safetensors file may begin with the
/// same bytes, of the length of its header, but then '{' follows.
bool is_torch_file(FileSystem& files, const Path& file) {
  const std::vector<std::byte> bytes = files.read(file, 0, 9);
  const auto starts_with = [&](std::initializer_list<int> magic) {
    return bytes.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), bytes.begin(), [](int a, std::byte b) { return std::byte(a) == b; });
  };
  const bool zip = starts_with({'P', 'K', 3, 4}) || starts_with({'P', 'K', 5, 6}) || starts_with({'P', 'K', 7, 8});
  const bool pickle =
      bytes.size() > 1 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{1} && bytes[1] <= std::byte{5};
  return (zip || pickle) && !(bytes.size() == 9 && bytes[8] == std::byte{'{'});
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+,:=@%-";
  if (!text.empty() && text.front() != '-' && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

Path weights_path(FileSystem& files, const Path& path) {
  if (files.is_directory(path)) return checkpoint_of_run(files, path, "") / "model.safetensors";
  if (!files.is_file(path))
    throw CheckpointError("--init " + path.string() +
                          ": no such file or folder; expected a safetensors file, a checkpoint or a run");
  return path;
}

std::string common_prefix(const std::vector<TensorEntry>& tensors) {
  std::string prefix;
  for (bool found = !tensors.empty(); found;) {
    found = false;
    for (const std::string_view next : kWrapperPrefixes) {
      const std::string longer = prefix + std::string(next);
      if (!std::all_of(tensors.begin(), tensors.end(),
                       [&](const auto& tensor) { return carries(tensor.name, longer); }))
        continue;
      prefix = longer;
      found = true;
      break;
    }
  }
  return prefix;
}

/// Names with a prefix that stays, since others have not got it.
std::string describe_partial_prefix(const std::vector<TensorEntry>& tensors) {
  for (const std::string_view prefix : kWrapperPrefixes) {
    std::vector<std::string> without;
    for (const TensorEntry& tensor : tensors) {
      if (!carries(tensor.name, prefix)) without.push_back(tensor.name);
    }
    if (without.size() < tensors.size())
      return " The prefix " + std::string(prefix) +
             " is removed only where all names carry it; these do not: " + first_names(without) + ".";
  }
  return "";
}

/// What would make the load go through, where something would.
std::string way_out(const WeightsFile& weights, const WeightMatch& match, bool none_fits) {
  if (none_fits && match.misshapen.empty())
    return ". No weight fits: is it a network of another kind, or are its names prefixed?" +
           describe_partial_prefix(weights.tensors);
  if (match.misshapen.empty())
    return ". Give --allow-missing to leave what the file lacks at random values and ignore what the model lacks";
  if (std::all_of(match.misshapen.begin(), match.misshapen.end(), in_head))
    return ". Give --reset-head for a new classification layer";
  if (match.only_dtypes) return ". A wider type is not narrowed: convert the file, or train with train.dtype=float64";
  return ". --model, --width and --stem must be those the file was made with";
}

std::vector<TensorEntry> without_head(const std::vector<TensorEntry>& tensors) {
  std::vector<TensorEntry> rest;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(rest),
               [](const TensorEntry& tensor) { return !in_head(tensor.name); });
  return rest;
}

}  // namespace

WeightsFile open_weights(FileSystem& files, const Path& path, const Path& program) {
  WeightsFile weights{.file = weights_path(files, path)};
  try {
    if (is_torch_file(files, weights.file))
      throw CheckpointError(
          "--init " + weights.file.string() +
          ": PyTorch's own format (a zip archive or a pickle), which can run code when read, so it is "
          "not read. Convert it, then give the result to --init:\n  " +
          conversion_command(files, program, weights.file));
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
  weights.tensors = read_safetensors_index(files, weights.file).tensors;
  weights.prefix = common_prefix(weights.tensors);
  for (TensorEntry& tensor : weights.tensors) tensor.name.erase(0, weights.prefix.size());
  return weights;
}

WeightsFit fit_weights(const WeightsFile& weights, const InitOptions& options, const std::vector<TensorEntry>& model) {
  WeightsFit fit;
  if (options.reset_head) {
    fit.match = match_weights(without_head(weights.tensors), without_head(model), Conversion::kWidens);
    for (const TensorEntry& tensor : model) {
      if (in_head(tensor.name)) fit.head.push_back(tensor.name);
    }
  } else {
    fit.match = match_weights(weights.tensors, model, Conversion::kWidens);
  }
  WeightMatch& match = fit.match;
  // They count batches and decide nothing; PyTorch takes a file without them for one of its old versions.
  if (std::none_of(weights.tensors.begin(), weights.tensors.end(), [](const auto& t) { return is_counter(t.name); })) {
    std::copy_if(match.missing.begin(), match.missing.end(), std::back_inserter(fit.counters), is_counter);
    std::erase_if(match.missing, is_counter);
  }
  // A network of another kind has batches to count as well.
  const bool none_fits =
      std::all_of(match.fitting.begin(), match.fitting.end(), [](const auto& t) { return is_counter(t.name); });
  const bool partial = !match.missing.empty() || !match.extra.empty();
  if (none_fits || !match.misshapen.empty() || (partial && !options.allow_missing))
    throw CheckpointError(describe_mismatch(match, weights.file.string()) + way_out(weights, match, none_fits));
  return fit;
}

std::vector<TensorEntry> state_entries(const ResNetSpec& spec, const std::string& float_dtype) {
  std::vector<TensorEntry> entries;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    entries.push_back({.name = name, .dtype = float_dtype, .shape = std::move(shape)});
  };
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) {
      const int64_t out = layer.out_channels, in = layer.in_channels;
      switch (layer.kind) {
        case LayerSpec::Kind::kConv:
          add(layer.name + ".weight", {out, in, layer.kernel, layer.kernel});
          break;
        case LayerSpec::Kind::kLinear:
          add(layer.name + ".weight", {out, in});
          add(layer.name + ".bias", {out});
          break;
        case LayerSpec::Kind::kBatchNorm:
          for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) add(layer.name + part, {out});
          entries.push_back({.name = layer.name + std::string(kCounterSuffix), .dtype = "I64"});
          break;
      }
    }
  }
  return entries;
}

std::vector<std::string> describe_weights(const WeightsFile& weights, const WeightsFit& fit) {
  std::vector<std::string> lines;
  if (!weights.prefix.empty())
    lines.push_back("--init: all " + std::to_string(weights.tensors.size()) + " names of " + weights.file.string() +
                    " carry the prefix " + weights.prefix + ", which is removed");
  if (!fit.counters.empty())
    lines.push_back("--init: " + weights.file.string() + " has no num_batches_tracked (as files from before PyTorch " +
                    "0.4.1); the " + std::to_string(fit.counters.size()) + " counters start at 0");
  return lines;
}

std::string conversion_command(FileSystem& files, const Path& program, const Path& file) {
  Path script = Path("scripts") / kScript;
  if (!program.empty()) {
    const Path folder = program.parent_path();
    for (const Path& root : {folder.parent_path() / "share" / "mgtrain",  // PREFIX/bin/mgtrain
                             folder.parent_path().parent_path()}) {       // SOURCE/build/PRESET/mgtrain
      if (files.is_file(root / "scripts" / kScript)) {
        script = root / "scripts" / kScript;
        break;
      }
    }
  }
  const std::string to = Path(file).replace_extension(".safetensors").string();
  return shell_word(script.string()) + " " + shell_word(file.string()) + " " +
         shell_word(to == file.string() ? file.string() + ".converted" : to);
}

}  // namespace mgtrain
