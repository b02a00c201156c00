#include "checkpoint/run_record.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace mgtrain {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSchema = 1;
// What a run.json that means harm is held to. Ours has 4 levels of nesting; to find a key among others is a walk.
constexpr int kDeepest = 32;
constexpr size_t kMostKeys = 10'000, kMostValues = 1'000'000;
constexpr uint64_t kLargest = uint64_t{16} << 20;

/// JSON has no NaN and no infinity.
Json number_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// The text as JSON, discarded where it is none. Throws CheckpointError, naming `source`, before it takes more time or
/// memory than a run.json could need.
Json parse_bounded(std::string_view text, const std::string& source) {
  const auto fail = [&](const std::string& problem) { throw CheckpointError(source + ": " + problem); };
  if (text.size() > kLargest) fail(std::to_string(text.size()) + " bytes are too many");
  size_t num_keys = 0, num_values = 0;
  const auto bounded = [&](int depth, Json::parse_event_t event, Json&) {
    if (depth > kDeepest) fail("nested deeper than " + std::to_string(kDeepest) + " levels");
    if (event == Json::parse_event_t::key && ++num_keys > kMostKeys)
      fail("more than " + std::to_string(kMostKeys) + " keys");
    if (event != Json::parse_event_t::key && ++num_values > kMostValues)
      fail("more than " + std::to_string(kMostValues) + " values");
    return true;
  };
  return Json::parse(text, bounded, false);
}

/// A JSON text inside run.json as what it is, for a reader; as a string where that would not give the same text back,
/// or is no text of ours.
Json embedded(const std::string& text) {
  try {
    Json parsed = parse_bounded(text, "");
    if (parsed.is_object() && parsed.dump() == text) return parsed;
  } catch (const CheckpointError&) {
  }
  return text;
}

/// Takes fields out of an object; every error names the source and the field.
class Fields {
 public:
  Fields(const Json& object, std::string source) : object_(object), source_(std::move(source)) {}

  [[noreturn]] void fail(const std::string& name, const std::string& wanted) const {
    throw CheckpointError(source_ + ": " + printable(name.substr(0, 255)) +
                          (object_.contains(name) ? " is not " : " is missing; expected ") + wanted);
  }

  const Json& any(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) fail(name, "a value");
    return *found;
  }

  std::string text(const char* name) const {
    const Json& value = any(name);
    if (!value.is_string()) fail(name, "a text");
    return value.get<std::string>();
  }

  int64_t integer(const char* name) const {
    const Json& value = any(name);
    const bool too_large = value.is_number_unsigned() &&
                           value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!value.is_number_integer() || too_large) fail(name, "a whole number");
    return value.get<int64_t>();
  }

  double number(const char* name) const {
    const Json& value = any(name);
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    if (!value.is_number()) fail(name, "a number");
    return value.get<double>();
  }

  bool truth(const char* name) const {
    const Json& value = any(name);
    if (!value.is_boolean()) fail(name, "true or false");
    return value.get<bool>();
  }

  std::string json_text(const char* name) const {
    const Json& value = any(name);
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_object()) fail(name, "an object");
    return value.dump();
  }

  Fields object(const char* name) const {
    const Json& value = any(name);
    if (!value.is_object()) fail(name, "an object");
    return {value, source_ + ": " + name};
  }

  const Json& value() const { return object_; }

 private:
  const Json& object_;
  std::string source_;
};

Json state_json(const TrainState& state) {
  Json json;
  json["step"] = state.step;
  json["epoch"] = state.epoch;
  json["sample_offset"] = state.sample_offset;
  json["samples_seen"] = state.samples_seen;
  json["best_value"] = state.best_value ? number_of(*state.best_value) : Json();
  json["best_step"] = state.best_step;
  json["evals_without_improvement"] = state.evals_without_improvement;
  json["last_eval_step"] = state.last_eval_step;
  json["loss_sum_since_report"] = number_of(state.loss_sum_since_report);
  json["top1_since_report"] = state.top1_since_report;
  json["samples_since_report"] = state.samples_since_report;
  json["elapsed_seconds"] = number_of(state.elapsed_seconds);
  json["finished"] = state.finished;
  return json;
}

TrainState state_of(const Fields& fields) {
  TrainState state;
  state.step = fields.integer("step");
  state.epoch = fields.integer("epoch");
  state.sample_offset = fields.integer("sample_offset");
  state.samples_seen = fields.integer("samples_seen");
  if (!fields.any("best_value").is_null()) state.best_value = fields.number("best_value");
  state.best_step = fields.integer("best_step");
  state.evals_without_improvement = fields.integer("evals_without_improvement");
  state.last_eval_step = fields.integer("last_eval_step");
  state.loss_sum_since_report = fields.number("loss_sum_since_report");
  state.top1_since_report = fields.integer("top1_since_report");
  state.samples_since_report = fields.integer("samples_since_report");
  state.elapsed_seconds = fields.number("elapsed_seconds");
  state.finished = fields.truth("finished");
  return state;
}

std::vector<std::string> texts_of(const Fields& fields, const char* name) {
  std::vector<std::string> texts;
  const Json& list = fields.any(name);
  if (!list.is_array()) fields.fail(name, "a list of texts");
  for (const Json& item : list) {
    if (!item.is_string()) fields.fail(name, "a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

/// The name of a file in the run folder itself. Lengths are what files are cut back to on a resume: a path would reach
/// any file of the user's.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.size() <= 255 && name.find('/') == std::string::npos &&
         printable(name) == name;
}

std::map<std::string, uint64_t> lengths_of(const Fields& fields) {
  std::map<std::string, uint64_t> lengths;
  for (const auto& [name, length] : fields.value().items()) {
    if (!is_plain_name(name)) fields.fail(name, "the name of a file");
    if (!length.is_number_unsigned()) fields.fail(name, "a number of bytes");
    lengths[name] = length.get<uint64_t>();
  }
  return lengths;
}

}  // namespace

std::string render_run_record(const RunRecord& record) {
  Json json;
  json["schema"] = kSchema;
  json["state"] = state_json(record.state);
  json["total_steps"] = record.total_steps;
  json["steps_per_epoch"] = record.steps_per_epoch;
  json["model"] = embedded(record.model_json);
  json["class_names"] = record.class_names;
  json["dataset_fingerprint"] = record.dataset_fingerprint;
  json["dataset"] = embedded(record.dataset_json);
  json["file_lengths"] = Json::object();
  for (const auto& [name, length] : record.file_lengths) json["file_lengths"][name] = length;
  json["mgtrain_version"] = record.mgtrain_version;
  json["torch_version"] = record.torch_version;
  json["config_toml"] = record.config_toml;
  // A class may be named after a folder, whose name is any bytes: refused with a reason by the data reader, and
  // never a reason to lose a checkpoint.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunRecord parse_run_record(std::string_view text, const std::string& source) {
  const Json json = parse_bounded(text, source);
  if (!json.is_object()) throw CheckpointError(source + ": not a JSON object");
  const Fields fields(json, source);
  if (const int64_t schema = fields.integer("schema"); schema != kSchema)
    throw CheckpointError(source + ": schema " + std::to_string(schema) + ", this mgtrain reads " +
                          std::to_string(kSchema) + "; use the version that wrote it");
  RunRecord record;
  record.state = state_of(fields.object("state"));
  record.total_steps = fields.integer("total_steps");
  record.steps_per_epoch = fields.integer("steps_per_epoch");
  record.model_json = fields.json_text("model");
  record.class_names = texts_of(fields, "class_names");
  record.dataset_fingerprint = fields.text("dataset_fingerprint");
  record.dataset_json = fields.json_text("dataset");
  record.file_lengths = lengths_of(fields.object("file_lengths"));
  record.mgtrain_version = fields.text("mgtrain_version");
  record.torch_version = fields.text("torch_version");
  record.config_toml = fields.text("config_toml");
  return record;
}

RunRecord read_run_record(FileSystem& files, const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / kRunRecordName;
  try {
    if (const uint64_t size = files.size(file); size > kLargest)
      throw CheckpointError(file.string() + ": " + std::to_string(size) + " bytes are too many");
    return parse_run_record(read_text(files, file), file.string());
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace mgtrain
