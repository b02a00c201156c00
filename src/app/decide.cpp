#include "app/decide.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/resume_changes.h"
#include "checkpoint/weights_file.h"

namespace mgtrain {
namespace {

/// The sources with a checkpoint's configuration below them.
ConfigSources sources_of(const CommandLine& line, const RunPlace& place) {
  ConfigSources sources = line.config;
  if (place.record) sources.base = ConfigBase{place.record->config_toml, place.checkpoint->string() + " (config)"};
  return sources;
}

/// The file that a new run starts from, if one is named: looked at before anything that takes longer.
std::optional<WeightsFile> open_init(const RunConfig& values, const RunPlace& place, const CommandLine& line,
                                     FileSystem& files) {
  if (values.model.init.empty() || place.record) return std::nullopt;
  return open_weights(files, values.model.init, line.program);
}

/// Whether it fits the network, which is known now; what to say of it.
std::vector<std::string> check_init(const WeightsFile& weights, const ModelConfig& model, const RunPlan& plan) {
  const InitOptions options{.path = model.init, .reset_head = model.reset_head, .allow_missing = model.allow_missing};
  const std::string dtype = plan.dtype == "float64" ? "F64" : "F32";
  return describe_weights(weights, fit_weights(weights, options, state_entries(plan.model, dtype)));
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

/// The cores are shared out to the processes that may use the same ones, the first ones a core more.
int threads_of(const LaunchedProcess& process, const Inventory& inventory) {
  if (process.threads) return *process.threads;
  const auto [position, sharers] = process.cores;
  return std::max(1, inventory.cpu_cores / sharers + (position < inventory.cpu_cores % sharers ? 1 : 0));
}

}  // namespace

Decision decide(const CommandLine& line, AppContext& context, const LaunchedProcess* process) {
  RunPlace place = process != nullptr ? process->find_place() : find_run_place(line, context);
  std::vector<std::string> warnings = place.warnings;
  CheckedConfig config = check(sources_of(line, place), &warnings);
  const std::optional<WeightsFile> init = open_init(config.values(), place, line, context.files);
  Inventory inventory = context.inventory();
  Selection selection = process == nullptr ? select_devices(config.values().devices, inventory)
                                           : select_for_process(config.values().devices, inventory,
                                                                {.local_rank = process->machine.position,
                                                                 .local_size = process->machine.count,
                                                                 .threads = threads_of(*process, inventory)});
  DatasetInfo dataset = inspect_dataset(config.values().data, embedded_data_candidates(line.program));
  const LaunchPlace launch =
      process == nullptr ? LaunchPlace{} : LaunchPlace{process->launcher, process->rank, process->ranks};
  RunPlan plan = make_plan(config, selection, dataset, launch);
  check_evaluated(config.values().train, plan);
  std::vector<std::string> notes = place.notes;
  if (process != nullptr) notes.insert(notes.end(), process->notes.begin(), process->notes.end());
  if (init) {
    for (std::string& note : check_init(*init, config.values().model, plan)) notes.push_back(std::move(note));
  }
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
