// `mgtrain train`, in the order of docs/architecture.md's flow: decide -> folder -> data -> model, strategy,
// optimizer -> state of a checkpoint -> observers -> the loop -> the end.
#include <ATen/Context.h>
#include <torch/version.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/assemble.h"
#include "app/commands.h"
#include "app/decide.h"
#include "app/failure.h"
#include "app/run_observers.h"
#include "app/run_records.h"
#include "base/error.h"
#include "base/signals.h"
#include "base/version.h"
#include "checkpoint/load_weights.h"
#include "config/render.h"
#include "data/sources.h"
#include "engine/assertions.h"
#include "engine/trainer.h"
#include "model/make_model.h"
#include "observe/console.h"
#include "observe/past_evals.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

/// While it lives a signal ends the run after its step, with a checkpoint; before and after, the process at once.
struct SavingScope {
  SavingScope() { begin_saving(); }
  ~SavingScope() { end_saving(); }
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;
};

/// Settings of LibTorch that hold for the whole process.
void set_numerics(const TrainConfig& train) {
  at::globalContext().setDeterministicAlgorithms(train.deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(train.deterministic);
  // Trying out algorithms pays for a fixed shape, and may choose another one in each run.
  at::globalContext().setBenchmarkCuDNN(!train.deterministic);
  if (train.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

void log_list(const std::vector<std::string>& names, const std::string& what, Log& log) {
  if (names.empty()) return;
  std::string text = std::to_string(names.size()) + " tensors " + what + ": ";
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
  log.warning(text + (names.size() > kShown ? ", ..." : ""));
}

std::shared_ptr<ResNet> build_model(const Decision& decision, AppContext& context) {
  const ModelConfig& config = decision.config.values().model;
  const at::ScalarType dtype = decision.plan.dtype == "float64" ? at::kDouble : at::kFloat;
  std::shared_ptr<ResNet> model =
      make_model(decision.plan.model, config, decision.plan.seed, dtype, decision.plan.memory_format == "nhwc");
  if (!config.init.empty() && !decision.place.record) {
    const LoadedWeights weights = load_weights(
        context.files, {.path = config.init, .reset_head = config.reset_head, .allow_missing = config.allow_missing},
        state_tensors(*model));
    context.log.info("--init: " + std::to_string(weights.loaded) + " tensors loaded from " + weights.file.string());
    log_list(weights.fresh, "keep their random values", context.log);
    log_list(weights.ignored, "of the file are not in the model and are ignored", context.log);
  }
  freeze_parameters(*model, config.freeze);
  return model;
}

void load_checkpoint(const Path& checkpoint, Strategy& strategy, Optimizer& optimizer, FileSystem& files) {
  load_strictly(read_model(files, checkpoint), strategy.full_state(), (checkpoint / "model.safetensors").string());
  strategy.state_changed();
  optimizer.load_state(read_optimizer_state(files, checkpoint));
}

RunRecord describe_run(const Decision& decision, const InputFormat& input, const std::string& fingerprint) {
  RunRecord record;
  record.config_toml = render_toml(decision.config, /*with_origins=*/false);
  record.model_json = model_json(decision.plan.model, decision.plan.dtype);
  record.class_names = decision.dataset.class_names;
  record.dataset_fingerprint = fingerprint;
  record.dataset_json = dataset_json(decision.dataset, input);
  record.mgtrain_version = kVersion;
  record.torch_version = TORCH_VERSION;
  record.total_steps = decision.plan.total_steps;
  record.steps_per_epoch = decision.plan.steps_per_epoch;
  return record;
}

StartReport start_report(const Decision& decision) {
  const RunPlan& plan = decision.plan;
  StartReport report{.headline = headline(plan),
                     .start_step = decision.place.record ? decision.place.record->state.step : 0,
                     .total_steps = plan.total_steps,
                     .steps_per_epoch = plan.steps_per_epoch,
                     .epochs = plan.epochs,
                     .resumed = decision.place.record.has_value(),
                     .strategy = plan.strategy == StrategyKind::kSingle ? "single" : "dp",
                     .global_batch = plan.global_batch,
                     .seed = plan.seed};
  for (const Device& device : plan.selection.devices) report.devices.push_back(device.label());
  return report;
}

/// What was decided, for stderr, log.txt and metrics.jsonl.
void tell_decision(const Decision& decision, Observer& observer, Log& log) {
  const Selection& selection = decision.plan.selection;
  if (selection.fell_back_to_cpu) {
    const size_t devices = selection.devices.size();
    observer.on_device_fallback("--gpus " + selection.requested,
                                devices == 1 ? "cpu" : "cpu:" + std::to_string(devices), selection.fallback_reason);
  }
  for (const std::string& warning : decision.warnings) observer.on_warning("config", warning);
  for (const std::string& warning : decision.plan.warnings) {
    if (selection.fell_back_to_cpu && warning == selection.warnings.front()) continue;  // said above
    observer.on_warning("plan", warning);
  }
  for (const std::string& note : decision.notes) log.info(note);
  for (const std::string& note : decision.plan.notes) log.info(note);
}

void warn_of_little_room(const Decision& decision, const Path& folder, FileSystem& files, Observer& observer) {
  // Those kept, the best one, and the one being written.
  const uint64_t needed =
      decision.plan.checkpoint_bytes * static_cast<uint64_t>(decision.config.values().checkpoint.keep + 2);
  const uint64_t free = files.free_bytes(folder);
  if (free >= needed) return;
  constexpr uint64_t kMebi = 1024 * 1024;
  observer.on_warning("disk", "the checkpoints of this run need about " + std::to_string(needed / kMebi + 1) +
                                  " MiB and " + folder.string() + " has " + std::to_string(free / kMebi) +
                                  " MiB free; a smaller --keep, or another --output");
}

/// "A finished run resumed": its results again, and nothing touched.
ExitCode tell_finished(const Decision& decision, AppContext& context) {
  const RunRecord& record = *decision.place.record;
  const Path folder = decision.place.from.empty() ? decision.place.folder : decision.place.from;
  const auto length = record.file_lengths.find("metrics.jsonl");
  const PastEvals past =
      past_evals(context.files, folder / "metrics.jsonl", length == record.file_lengths.end() ? 0 : length->second);
  EndReport report{.reason = "done", .step = record.state.step, .last_eval = past.last, .best_eval = past.best};
  report.failed_asserts = failed_assertions(decision.config.values().train.asserts, past.last);
  if (!report.failed_asserts.empty()) report.exit_code = static_cast<int>(ExitCode::kAssertionFailed);
  context.log.info("the run is finished: nothing to do");
  context.out << last_line(report, folder.string()) << std::endl;
  return static_cast<ExitCode>(report.exit_code);
}

}  // namespace

ExitCode run_train(const CommandLine& line, AppContext& context) {
  const double started = context.clock.monotonic_seconds();
  const Decision decision = decide(line, context);
  const RunConfig& config = decision.config.values();
  const RunPlan& plan = decision.plan;
  if (decision.place.record && nothing_to_do(*decision.place.record, plan)) return tell_finished(decision, context);
  set_numerics(config.train);

  const Path folder = claim_run_folder(decision.place, plan.model.name, context);
  context.log.add_file(folder / "log.txt");
  write_run_records(decision, line, folder, context.files);

  const LoadedData data = load_dataset(config.data, decision.dataset, plan.seed);
  if (decision.place.record)
    check_resume(*decision.place.record, config, plan, line.resume_changes_allow, data.fingerprint);
  const InputFormat input = input_format(config.data, decision.dataset, data.stats);
  const bool channels_last = plan.memory_format == "nhwc";
  const Transform transform = make_transform(input, data.train.shape, config.data,
                                             channels_last ? MemoryFormat::kNhwc : MemoryFormat::kNchw, plan.seed);
  const BatchSourceOptions source_options{.workers = config.data.workers,
                                          .prefetch = config.data.prefetch,
                                          .pin_memory = !plan.selection.on_cpu(),
                                          .float64 = plan.dtype == "float64"};
  BatchSource train_source(data.train, transform, source_options);
  BatchSource val_source(data.val, transform, source_options);

  const std::unique_ptr<Strategy> strategy = make_strategy(build_model(decision, context), plan.selection.devices,
                                                           channels_last, config.optim.label_smoothing);
  Optimizer optimizer(config.optim, strategy->trainable_parameters());
  const LrSchedule schedule(config.optim, plan.learning_rate, plan.steps_per_epoch, plan.total_steps);
  TrainState state;
  if (decision.place.record) {
    load_checkpoint(*decision.place.checkpoint, *strategy, optimizer, context.files);
    state = decision.place.record->state;
    state.finished = false;
  }

  CheckpointStore store(context.files, folder, config.checkpoint.keep);
  store.remove_temporary();
  carry_best_over(decision.place, folder, context.files);
  RunObservers observers(decision, folder, line, context);
  observers.all().on_start(start_report(decision));
  tell_decision(decision, observers.all(), context.log);
  warn_of_little_room(decision, folder, context.files, observers.all());
  if (decision.place.cut_back && state.best_step >= 0 && context.files.is_directory(store.folder_of(state.best_step)))
    store.set_best(state.best_step);

  TrainFeed feed(train_source, plan, config.data.drop_last);
  std::optional<Evaluator> evaluator;
  if (data.val.count() > 0) {
    const int64_t batch = std::min(data.val.count(), plan.micro_batches.front());
    evaluator.emplace(*strategy, val_source, data.val.count(), batch, decision.dataset.num_classes, context.clock);
  }
  Checkpointer checkpointer({.store = store,
                             .strategy = *strategy,
                             .optimizer = optimizer,
                             .observer = observers.all(),
                             .clock = context.clock,
                             .file_lengths = [&] { return observers.file_lengths(); }},
                            describe_run(decision, input, data.fingerprint));
  Trainer trainer({.total_steps = plan.total_steps,
                   .steps_per_epoch = plan.steps_per_epoch,
                   .num_devices = static_cast<int64_t>(plan.selection.devices.size()),
                   .train = config.train,
                   .clip_grad = config.optim.clip_grad,
                   .checkpoint = config.checkpoint,
                   .log_every = config.output.log_every},
                  {.strategy = *strategy,
                   .optimizer = optimizer,
                   .schedule = schedule,
                   .feed = feed,
                   .evaluator = evaluator ? &*evaluator : nullptr,
                   .checkpointer = &checkpointer,
                   .observer = observers.all(),
                   .trace = observers.trace(),
                   .clock = context.clock},
                  state);

  EndReport end;
  std::exception_ptr failure;
  const SavingScope saving;
  try {
    const TrainOutcome outcome = trainer.run();
    end.reason = outcome.reason;
    end.exit_code = static_cast<int>(outcome.exit_code);
  } catch (...) {
    failure = std::current_exception();
    const Failure described = describe_failure(failure);
    end.reason = "error: " + described.message;
    end.exit_code = static_cast<int>(described.code);
  }
  end.step = trainer.state().step;
  end.epoch = trainer.state().epoch;
  end.samples_seen = trainer.state().samples_seen;
  end.seconds = context.clock.monotonic_seconds() - started;
  end.last_eval = trainer.last_eval() ? trainer.last_eval() : observers.past().last;
  end.best_eval = trainer.best_eval() ? trainer.best_eval() : observers.past().best;
  end.scaling = trainer.scaling();
  end.mean_images_per_second = trainer.mean_images_per_second();
  if (end.exit_code == 0) {
    end.failed_asserts = failed_assertions(config.train.asserts, end.last_eval);
    if (!end.failed_asserts.empty()) end.exit_code = static_cast<int>(ExitCode::kAssertionFailed);
  }
  const std::exception_ptr unwritten = observers.end(end);
  if (failure) std::rethrow_exception(failure);
  if (unwritten) std::rethrow_exception(unwritten);
  for (const std::string& failed : end.failed_asserts) context.log.error("assertion failed: " + failed);
  return static_cast<ExitCode>(end.exit_code);
}

}  // namespace mgtrain
