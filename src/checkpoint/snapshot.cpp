#include "checkpoint/snapshot.h"

#include <utility>

#include "base/error.h"

namespace mgtrain {

namespace {

constexpr char kModelName[] = "model.safetensors";
constexpr char kStateName[] = "state.safetensors";
// state.safetensors holds more than the optimizer in time: averages, scaler.
constexpr char kOptimizerPrefix[] = "optimizer.";

/// Python's libraries ask for it.
const std::map<std::string, std::string>& metadata() {
  static const std::map<std::string, std::string> values = {{"format", "pt"}};
  return values;
}

NamedTensors state_tensors(const Snapshot& snapshot) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : snapshot.optimizer) tensors.emplace_back(kOptimizerPrefix + name, tensor);
  return tensors;
}

CheckpointFile tensor_file(const char* name, NamedTensors tensors) {
  const uint64_t bytes = safetensors_bytes(tensors, metadata());
  const auto write = [tensors = std::move(tensors)](WritableFile& file) {
    write_safetensors(file, tensors, metadata());
  };
  return {name, write, bytes};
}

}  // namespace

std::vector<CheckpointFile> checkpoint_files(const Snapshot& snapshot) {
  std::string record = render_run_record(snapshot.record);
  const uint64_t record_bytes = record.size();
  const auto write_record = [record = std::move(record)](WritableFile& file) {
    file.write(std::as_bytes(std::span(record.data(), record.size())));
  };
  return {tensor_file(kModelName, snapshot.model), tensor_file(kStateName, state_tensors(snapshot)),
          CheckpointFile{kRunRecordName, write_record, record_bytes}};
}

NamedTensors read_model(FileSystem& files, const std::filesystem::path& checkpoint) {
  return read_safetensors(files, checkpoint / kModelName);
}

NamedTensors read_optimizer_state(FileSystem& files, const std::filesystem::path& checkpoint) {
  NamedTensors state;
  const std::string prefix = kOptimizerPrefix;
  for (auto& [name, tensor] : read_safetensors(files, checkpoint / kStateName)) {
    if (name.rfind(prefix, 0) != 0)
      throw CheckpointError((checkpoint / kStateName).string() + ": holds " + name +
                            ", which this version of mgtrain does not know; use the version that wrote it");
    state.emplace_back(name.substr(prefix.size()), tensor);
  }
  return state;
}

}  // namespace mgtrain
