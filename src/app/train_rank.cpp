#include "app/train_rank.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/version.h"
#include "checkpoint/load_weights.h"
#include "config/render.h"
#include "devices/torch_device.h"
#include "model/make_model.h"
#include "parallel/device_errors.h"
#include "parallel/mesh_strategy.h"

#include <torch/version.h>

namespace mgtrain {
namespace {

void log_list(const std::vector<std::string>& names, const std::string& what, Log& log) {
  if (names.empty()) return;
  std::string text = std::to_string(names.size()) + " tensors " + what + ": ";
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
  log.warning(text + (names.size() > kShown ? ", ..." : ""));
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

StartReport start_report(const Decision& decision, const std::vector<std::string>& devices) {
  const RunPlan& plan = decision.plan;
  StartReport report{.headline = headline(plan),
                     .start_step = decision.place.record ? decision.place.record->state.step : 0,
                     .total_steps = plan.total_steps,
                     .steps_per_epoch = plan.steps_per_epoch,
                     .epochs = plan.epochs,
                     .resumed = decision.place.record.has_value(),
                     .strategy = strategy_name(plan.strategy),
                     .global_batch = plan.global_batch,
                     .seed = plan.seed};
  report.devices = devices;
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

void warn_of_little_room(const Decision& decision, const std::filesystem::path& folder, FileSystem& files,
                         Observer& observer) {
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

/// The batches are made by `workers` threads of the process, shared out to its ranks.
BatchSourceOptions source_options(const RunConfig& config, const RunPlan& plan) {
  const bool ranks_here = plan.strategy == StrategyKind::kRanks;
  const int64_t ranks = ranks_here ? static_cast<int64_t>(plan.selection.devices.size()) : 1;
  return {.workers = (config.data.workers + ranks - 1) / ranks,
          .prefetch = config.data.prefetch,
          .pin_memory = !plan.selection.on_cpu(),
          .float64 = plan.dtype == "float64"};
}

Transform transform_of(const TrainJob& job) {
  const RunPlan& plan = job.decision.plan;
  const MemoryFormat format = plan.memory_format == "nhwc" ? MemoryFormat::kNhwc : MemoryFormat::kNchw;
  return make_transform(job.input, job.data.train.shape, job.decision.config.values().data, format, plan.seed);
}

}  // namespace

TrainRank::TrainRank(const TrainJob& job, size_t device, const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : job_(job),
      config_(job.decision.config.values()),
      plan_(job.decision.plan),
      first_(group == nullptr || group->getRank() == 0),
      after_step_(job.on_finished),
      transform_(transform_of(job)),
      train_source_(job.data.train, transform_, source_options(config_, plan_)),
      val_source_(job.data.val, transform_, source_options(config_, plan_)),
      schedule_(config_.optim, plan_.learning_rate, plan_.steps_per_epoch, plan_.total_steps) {
  make_strategy(device, group);
  try {
    optimizer_.emplace(config_.optim, strategy_->trainable_parameters());
  } catch (...) {
    rethrow_as_device_error({.device = plan_.selection.devices[device].label(), .phase = "set-up of the optimizer"});
  }
  load_checkpoint();
  if (first_) open_files();
  make_trainer();
}

std::shared_ptr<ResNet> TrainRank::build_model() const {
  const Decision& decision = job_.decision;
  AppContext& context = job_.context;
  const ModelConfig& config = config_.model;
  const at::ScalarType dtype = decision.plan.dtype == "float64" ? at::kDouble : at::kFloat;
  std::shared_ptr<ResNet> model =
      make_model(decision.plan.model, config, decision.plan.seed, dtype, decision.plan.memory_format == "nhwc");
  if (first_ && !config.init.empty() && !decision.place.record) {
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

void TrainRank::make_strategy(size_t device, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const bool channels_last = plan_.memory_format == "nhwc";
  std::shared_ptr<ResNet> model = build_model();
  if (group == nullptr) {
    strategy_ = mgtrain::make_strategy(model, plan_.selection.devices, channels_last, config_.optim.label_smoothing);
    return;
  }
  const Device& own = plan_.selection.devices[device];
  strategy_ = std::make_unique<MeshStrategy>(std::move(model),
                                             StrategyOptions{.label_smoothing = config_.optim.label_smoothing,
                                                             .devices = {to_torch(own)},
                                                             .device_labels = {own.label()},
                                                             .threads = own.threads,
                                                             .channels_last = channels_last},
                                             MeshOptions{.group = group,
                                                         .sync_batch_norm = config_.parallel.sync_bn,
                                                         .bfloat16_gradients = config_.parallel.grad_dtype == "bf16"});
}

void TrainRank::load_checkpoint() {
  if (!job_.decision.place.record) return;
  if (first_) {
    const std::filesystem::path& checkpoint = *job_.decision.place.checkpoint;
    FileSystem& files = job_.context.files;
    load_strictly(read_model(files, checkpoint), strategy_->full_state(), (checkpoint / "model.safetensors").string());
    optimizer_->load_state(read_optimizer_state(files, checkpoint));
  }
  strategy_->state_changed();
  strategy_->take_from_first_rank(optimizer_->state());
}

void TrainRank::open_files() {
  const RunPlace& place = job_.decision.place;
  FileSystem& files = job_.context.files;
  store_.emplace(files, job_.folder, config_.checkpoint.keep);
  store_->remove_temporary();
  carry_best_over(place, job_.folder, files);
  observers_.emplace(job_.decision, job_.folder, job_.line, job_.context);
  observers_->add(after_step_);
  observers_->all().on_start(start_report(job_.decision, job_.devices));
  tell_decision(job_.decision, observers_->all(), job_.context.log);
  warn_of_little_room(job_.decision, job_.folder, files, observers_->all());
  const int64_t best = place.record ? place.record->state.best_step : -1;
  if (place.cut_back && best >= 0 && files.is_directory(store_->folder_of(best))) store_->set_best(best);
  checkpointer_.emplace(Checkpointer::Parts{.store = *store_,
                                            .strategy = *strategy_,
                                            .optimizer = *optimizer_,
                                            .observer = observers_->all(),
                                            .file_lengths = [this] { return observers_->file_lengths(); }},
                        describe_run(job_.decision, job_.input, job_.data.fingerprint));
}

void TrainRank::make_trainer() {
  feed_.emplace(train_source_, plan_, config_.data.drop_last, strategy_->place());
  const int64_t num_val = job_.data.val.count();
  if (num_val > 0) {
    evaluator_.emplace(*strategy_, val_source_, num_val, std::min(num_val, plan_.micro_batches.front()),
                       job_.decision.dataset.num_classes, job_.context.clock);
  }
  TrainState state;
  if (job_.decision.place.record) {
    state = job_.decision.place.record->state;
    state.finished = false;
  }
  trainer_.emplace(TrainerSettings{.total_steps = plan_.total_steps,
                                   .steps_per_epoch = plan_.steps_per_epoch,
                                   .num_devices = plan_.num_devices,
                                   .train = config_.train,
                                   .clip_grad = config_.optim.clip_grad,
                                   .checkpoint = config_.checkpoint,
                                   .log_every = config_.output.log_every},
                   TrainerParts{.strategy = *strategy_,
                                .optimizer = *optimizer_,
                                .schedule = schedule_,
                                .feed = *feed_,
                                .evaluator = evaluator_ ? &*evaluator_ : nullptr,
                                .checkpointer = checkpointer_ ? &*checkpointer_ : nullptr,
                                .observer = observers_ ? observers_->all() : after_step_,
                                .trace = observers_ ? observers_->trace() : nullptr,
                                .clock = job_.context.clock},
                   std::move(state));
}

TrainOutcome TrainRank::train() {
  // The threads of a process have one set of signal handlers; each process has its own.
  if (first_ || !plan_.launch.launcher.empty()) saving_.emplace();
  return trainer_->run();
}

}  // namespace mgtrain
