// `mgtrain checkpoint verify` and `mgtrain checkpoint inspect`: is a checkpoint, or every one of a run, whole; what is
// in it. Tensors are counted, not loaded.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/error.h"
#include "base/printable.h"
#include "checkpoint/resume.h"
#include "checkpoint/run_record.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace mgtrain {

namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;

struct Verdict {
  Path checkpoint;
  std::string problem;  // empty: whole
};

const char* const kTensorFiles[] = {"model.safetensors", "state.safetensors"};

Path path_of(const CommandLine& line, AppContext& context) {
  const Path path = line.items.at(0);
  if (context.files.is_directory(path)) return path;
  throw CheckpointError(path.string() + (context.files.is_file(path) ? " is a file" : " does not exist") +
                        "; expected a run folder or a checkpoint folder");
}

/// The checkpoint folders that a path stands for: itself, or a run's, newest first, and its best.
std::vector<Path> checkpoints_at(FileSystem& files, const Path& path) {
  if (is_checkpoint_folder(files, path)) return {path};
  std::vector<Path> checkpoints = step_folders(files, path);
  if (const std::optional<Path> best = find_best(files, path)) checkpoints.push_back(*best);
  if (checkpoints.empty())
    throw CheckpointError(path.string() + " holds no checkpoint: neither checkpoints/step-*, best/ nor manifest.json");
  return checkpoints;
}

Json tensor_file_json(FileSystem& files, const Path& file) {
  Json json;
  json["bytes"] = files.size(file);
  json["tensors"] = Json::array();
  for (const TensorEntry& tensor : read_safetensors_index(files, file).tensors)
    json["tensors"].push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
  return json;
}

int64_t elements_of(const std::vector<TensorEntry>& tensors) {
  int64_t elements = 0;
  for (const TensorEntry& tensor : tensors) elements += static_cast<int64_t>(tensor.length / dtype_bytes(tensor.dtype));
  return elements;
}

void print_tensor_file(FileSystem& files, const Path& file, std::ostream& out, bool quiet) {
  const std::vector<TensorEntry> tensors = read_safetensors_index(files, file).tensors;
  out << file.filename().string() << ": " << tensors.size() << " tensors, " << elements_of(tensors) << " values, "
      << files.size(file) << " bytes\n";
  if (quiet) return;
  for (const TensorEntry& tensor : tensors)
    out << "  " << printable(tensor.name) << "  " << describe_tensor(tensor.dtype, tensor.shape) << '\n';
}

void print_record(const RunRecord& record, std::ostream& out) {
  const TrainState& state = record.state;
  const auto line = [&](const char* name, const auto& value) { out << name << ": " << value << '\n'; };
  out << "step: " << state.step << " of " << record.total_steps << (state.finished ? " (finished)" : "") << '\n';
  out << "epoch: " << state.epoch << ", " << state.sample_offset << " of its samples seen\n";
  line("samples seen", state.samples_seen);
  if (state.best_value) out << "best: " << Json(*state.best_value).dump() << " at step " << state.best_step << '\n';
  line("model", printable(record.model_json));
  line("data", printable(record.dataset_json));
  line("data fingerprint", printable(record.dataset_fingerprint));
  out << "classes: " << record.class_names.size();
  const size_t shown = std::min<size_t>(record.class_names.size(), 20);
  for (size_t i = 0; i < shown; ++i) out << (i == 0 ? " (" : ", ") << printable(record.class_names[i]);
  out << (shown < record.class_names.size() ? ", ...)" : shown > 0 ? ")" : "") << '\n';
  out << "written by: mgtrain " << printable(record.mgtrain_version) << ", LibTorch " << printable(record.torch_version)
      << '\n';
}

}  // namespace

ExitCode run_checkpoint_verify(const CommandLine& line, AppContext& context) {
  const Path path = path_of(line, context);
  std::vector<Verdict> verdicts;
  for (const Path& checkpoint : checkpoints_at(context.files, path))
    verdicts.push_back({checkpoint, checkpoint_problem(context.files, checkpoint)});
  const bool whole =
      std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.problem.empty(); });

  if (line.json) {
    Json json{{"valid", whole}, {"checkpoints", Json::array()}};
    for (const Verdict& verdict : verdicts)
      json["checkpoints"].push_back({{"path", verdict.checkpoint.string()},
                                     {"valid", verdict.problem.empty()},
                                     {"problem", verdict.problem.empty() ? Json() : Json(verdict.problem)}});
    context.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    for (const Verdict& verdict : verdicts)
      context.out << verdict.checkpoint.string() << ": " << (verdict.problem.empty() ? "valid" : "NOT VALID: ")
                  << verdict.problem << '\n';
  }
  return whole ? ExitCode::kDone : ExitCode::kCheckpoint;
}

ExitCode run_checkpoint_inspect(const CommandLine& line, AppContext& context) {
  FileSystem& files = context.files;
  std::vector<std::string> warnings;
  const Path checkpoint = checkpoint_of_run(files, path_of(line, context), "", &warnings);
  for (const std::string& warning : warnings) context.log.warning(warning);

  if (line.json) {
    Json json{{"path", checkpoint.string()}};
    json["run"] = Json::parse(render_run_record(read_run_record(files, checkpoint)));
    for (const char* name : kTensorFiles) json["files"][name] = tensor_file_json(files, checkpoint / name);
    context.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    return ExitCode::kDone;
  }
  context.out << "checkpoint: " << checkpoint.string() << '\n';
  print_record(read_run_record(files, checkpoint), context.out);
  for (const char* name : kTensorFiles) print_tensor_file(files, checkpoint / name, context.out, line.quiet);
  return ExitCode::kDone;
}

}  // namespace mgtrain
