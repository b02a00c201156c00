#include "app/decide.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "checkpoint/resume_changes.h"

namespace mgtrain {
namespace {

/// The sources with a checkpoint's configuration below them.
ConfigSources sources_of(const CommandLine& line, const RunPlace& place) {
  ConfigSources sources = line.config;
  if (place.record) sources.base = ConfigBase{place.record->config_toml, place.checkpoint->string() + " (config)"};
  return sources;
}

void check_init(const RunConfig& values, FileSystem& files) {
  const std::string& init = values.model.init;
  if (init.empty() || files.is_file(init) || files.is_directory(init)) return;
  throw CheckpointError("--init " + init +
                        ": no such file or folder; expected a safetensors file, a checkpoint or a run");
}

/// What is decided by evaluations needs data for them; that a data set has none shows only now.
void check_evaluated(const TrainConfig& train, const RunPlan& plan) {
  if (plan.dataset.val || (train.asserts.empty() && train.early_stop == 0)) return;
  throw ConfigError(std::string(train.asserts.empty() ? "train.early_stop" : "train.assert") + ": " +
                    plan.dataset.path.string() +
                    " has no part for evaluation; give one with --val, a path or a share such as 10%");
}

/// A run that goes on with other batches counts its steps on from where it is.
void count_steps_from(const TrainState& state, const RunConfig& config, RunPlan& plan) {
  const int64_t samples = plan.dataset.train.num_samples, batch = plan.global_batch;
  const int64_t left = samples - state.sample_offset;
  const int64_t steps_left = config.data.drop_last ? left / batch : (left + batch - 1) / batch;
  int64_t total =
      state.step + steps_left + plan.steps_per_epoch * std::max<int64_t>(0, config.train.epochs - state.epoch - 1);
  if (state.epoch >= config.train.epochs) total = state.step;
  if (config.train.steps > 0) total = std::min(total, std::max(state.step, config.train.steps));
  plan.total_steps = total;
}

std::string stem_of(const std::string& model_json) {
  const nlohmann::json json = nlohmann::json::parse(model_json, nullptr, false);
  return json.is_object() ? json.value("stem", std::string()) : std::string();
}

}  // namespace

Decision decide(const CommandLine& line, AppContext& context) {
  RunPlace place = find_run_place(line, context);
  std::vector<std::string> warnings = place.warnings;
  CheckedConfig config = check(sources_of(line, place), &warnings);
  if (!place.record) check_init(config.values(), context.files);
  Inventory inventory = context.inventory();
  Selection selection = select_devices(config.values().devices, inventory);
  DatasetInfo dataset = inspect_dataset(config.values().data, embedded_data_candidates(line.program));
  RunPlan plan = make_plan(config, selection, dataset);
  check_evaluated(config.values().train, plan);
  std::vector<std::string> notes = place.notes;
  if (place.record) {
    const RunRecord& record = *place.record;
    for (std::string& change : check_resume(record, config.values(), plan, line.resume_changes_allow, ""))
      notes.push_back("resumed with another " + std::move(change));
    if (plan.steps_per_epoch != record.steps_per_epoch || plan.total_steps != record.total_steps)
      count_steps_from(record.state, config.values(), plan);
  }
  return {.place = std::move(place),
          .config = std::move(config),
          .notes = std::move(notes),
          .warnings = std::move(warnings),
          .inventory = std::move(inventory),
          .selection = std::move(selection),
          .dataset = std::move(dataset),
          .plan = std::move(plan)};
}

std::vector<std::string> check_resume(const RunRecord& record, const RunConfig& now, const RunPlan& plan,
                                      bool allow_changes, const std::string& fingerprint) {
  RunConfig saved = resolve({.base = ConfigBase{record.config_toml, "the checkpoint's config"}}).values;
  RunConfig wanted = now;
  // "auto" stands for the same stem as its outcome does.
  saved.model.stem = stem_of(record.model_json);
  wanted.model.stem = plan.model.stem == Stem::kCifar ? "cifar" : "imagenet";
  ResumeChanges changes = compare_for_resume(saved, wanted, allow_changes, record.dataset_fingerprint,
                                             fingerprint.empty() ? record.dataset_fingerprint : fingerprint,
                                             record.steps_per_epoch, plan.steps_per_epoch);
  std::vector<std::string> all = std::move(changes.taken);
  all.insert(all.end(), changes.recorded.begin(), changes.recorded.end());
  return all;
}

bool nothing_to_do(const RunRecord& record, const RunPlan& plan) {
  if (!record.state.finished) return false;
  return record.state.step >= plan.total_steps || plan.total_steps == record.total_steps;
}

}  // namespace mgtrain
