#include "plan/run_plan.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "data/epoch_order.h"
#include "devices/report.h"
#include "optim/lr_schedule.h"
#include "plan/batch_split.h"
#include "plan/estimate.h"

namespace mgtrain {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The name of the first BatchNorm that sees one value a channel and image, where a chunk of one image has no
/// variance and LibTorch refuses to train.
std::optional<std::string> norm_over_one_value(const ResNetSpec& spec) {
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) {
      if (layer.kind == LayerSpec::Kind::kBatchNorm && layer.out_height * layer.out_width == 1) return layer.name;
    }
  }
  return std::nullopt;
}

/// The name of a convolution that oneDNN computes wrongly in nhwc, if the model has one.
std::optional<std::string> narrow_shortcut(const ResNetSpec& spec) {
  constexpr int64_t kSafeChannels = 16;
  for (const UnitSpec& unit : spec.units) {
    for (const LayerSpec& layer : unit.layers) {
      const bool conv = layer.kind == LayerSpec::Kind::kConv;
      if (conv && layer.kernel == 1 && layer.stride > 1 && layer.in_channels < kSafeChannels) return layer.name;
    }
  }
  return std::nullopt;
}

/// One call of make_plan: fills the plan in the order of its fields.
class Planner {
 public:
  Planner(const CheckedConfig& config, const Selection& selection, const DatasetInfo& dataset,
          const LaunchPlace& launch)
      : checked_(config), config_(config.values()) {
    plan_.selection = selection;
    plan_.launch = launch;
    keep_one_device_if_asked(config_, plan_.selection);
    plan_.num_devices = launched() ? launch.ranks : static_cast<int64_t>(plan_.selection.devices.size());
    plan_.first_device = launch.rank;
    plan_.dataset = dataset;
    plan_.notes = plan_.selection.notes;
    plan_.warnings = selection.warnings;
    plan_.seed = config_.train.seed;
  }

  RunPlan make() {
    choose_strategy();
    describe_model();
    split_batches();
    count_steps();
    refuse_single_value_norms();
    plan_optimization();
    estimate();
    add_notes();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] int64_t num_devices() const { return plan_.num_devices; }
  [[nodiscard]] bool launched() const { return !plan_.launch.launcher.empty(); }

  void choose_strategy() {
    const std::string& asked = config_.parallel.strategy;
    if (launched()) {
      if (asked != "ddp" && asked != "auto") {
        throw ConfigError("parallel.strategy: --strategy " + asked + " is for the devices of one process, and " +
                          plan_.launch.launcher + " started " + count_of(num_devices(), "rank") +
                          "; use --strategy ddp, or start mgtrain without it");
      }
      plan_.strategy = StrategyKind::kRanks;
      plan_.strategy_reason = (asked == "auto" ? "started by " : "asked for; started by ") + plan_.launch.launcher +
                              ", each rank a process";
    } else if (asked == "ddp") {
      plan_.strategy = StrategyKind::kRanks;
      plan_.strategy_reason = "asked for; a rank a device, each a thread of this process";
    } else if (num_devices() == 1) {
      plan_.strategy = StrategyKind::kSingle;
      plan_.strategy_reason = asked == "single" ? "asked for"
                              : asked == "dp"   ? "dp was asked for; with one device there is nothing to share"
                                                : "one device";
    } else {
      plan_.strategy = StrategyKind::kDataParallel;
      plan_.strategy_reason = asked == "dp" ? "asked for" : std::to_string(num_devices()) + " devices in one process";
      if (config_.parallel.sync_bn) {
        throw ConfigError("parallel.sync_bn: --sync-bn on " + count_of(num_devices(), "device") +
                          " needs ranks, and --strategy " + asked +
                          " takes dp, whose replicas share no statistics; use --strategy ddp");
      }
    }
  }

  /// In how many parts BatchNorm sees a micro-batch in training.
  [[nodiscard]] int64_t norm_parts() const { return config_.parallel.sync_bn ? 1 : num_devices(); }

  void describe_model() {
    const DatasetInfo& data = plan_.dataset;
    plan_.model = make_resnet_spec(config_.model.name, config_.model.width, config_.model.stem, data.channels,
                                   data.input_height, data.input_width, data.num_classes);
    plan_.trainable_parameters = count_trainable_parameters(plan_.model, config_.model.freeze);
    plan_.dtype = config_.train.dtype;
    choose_memory_format();
  }

  /// Channels last is the faster order for convolutions on GPUs with tensor cores and in oneDNN. There it must not be
  /// used for narrow shortcuts: docs/decisions/007-narrow-nets-in-nchw.md.
  void choose_memory_format() {
    const std::string& asked = config_.train.memory_format;
    plan_.memory_format = asked == "auto" ? "nhwc" : asked;
    const bool on_cuda = plan_.selection.devices.front().kind == DeviceKind::kCuda;
    const bool onednn = !on_cuda && plan_.dtype == "float32";  // simulated devices compute on the CPU too
    const std::optional<std::string> narrow = onednn ? narrow_shortcut(plan_.model) : std::nullopt;
    if (!narrow || plan_.memory_format == "nchw") return;
    const std::string why = *narrow +
                            " has fewer than 16 input channels, and oneDNN gives wrong gradients for such a 1x1 "
                            "convolution of stride 2 in nhwc on the CPU";
    if (asked == "nhwc") {
      throw ConfigError("train.memory_format: --memory-format nhwc cannot be used for this model: " + why +
                        "; use --memory-format nchw, or --width 16 or more");
    }
    plan_.memory_format = "nchw";
    plan_.notes.push_back("memory format nchw: " + why);
  }

  void split_batches() {
    const int64_t batch = config_.train.batch;
    plan_.global_batch = batch;
    plan_.device_shares = even_shares(batch, num_devices());
    const int64_t largest_share = ceil_divide(batch, num_devices());
    const int64_t asked = config_.train.micro_batch > 0 ? ceil_divide(largest_share, config_.train.micro_batch)
                                                        : config_.train.accumulate;
    plan_.micro_batches = split_batch(batch, num_devices(), asked);
    plan_.accumulate = static_cast<int64_t>(plan_.micro_batches.size());
    if (plan_.accumulate < asked) {
      plan_.warnings.push_back("--accumulate " + std::to_string(asked) + ": a device's share of --batch " +
                               std::to_string(batch) + " makes only " + count_of(plan_.accumulate, "piece"));
    }
    if (batch < num_devices()) {
      plan_.warnings.push_back("--batch " + std::to_string(batch) +
                               " is smaller than the number of devices: " + count_of(num_devices() - batch, "device") +
                               " of " + std::to_string(num_devices()) + " get no samples");
    }
  }

  void count_steps() {
    const int64_t samples = plan_.dataset.train.num_samples, batch = plan_.global_batch;
    if (samples < 1) throw DataError(plan_.dataset.path.string() + ": no training samples");
    const bool drop = config_.data.drop_last;
    plan_.steps_per_epoch = drop ? samples / batch : ceil_divide(samples, batch);
    if (plan_.steps_per_epoch == 0) {
      throw ConfigError("--drop-last with --batch " + std::to_string(batch) + " drops all " + std::to_string(samples) +
                        " training samples; use --batch " + std::to_string(samples) + " or less");
    }
    plan_.last_batch = drop || samples % batch == 0 ? batch : samples % batch;
    plan_.dropped_samples = drop ? samples % batch : 0;

    const int64_t by_epochs = config_.train.epochs * plan_.steps_per_epoch;
    plan_.total_steps = config_.train.steps > 0 ? std::min(config_.train.steps, by_epochs) : by_epochs;
    if (plan_.total_steps < 1) throw ConfigError("train.epochs is 0, expected at least 1");
    plan_.epochs = ceil_divide(plan_.total_steps, plan_.steps_per_epoch);
    if (config_.train.steps > by_epochs && !checked_.given("train.epochs")) {
      plan_.warnings.push_back("--steps " + std::to_string(config_.train.steps) + " is more than the default " +
                               count_of(config_.train.epochs, "epoch") + " (" + count_of(by_epochs, "step") +
                               "), which end the run first; give --epochs to train longer");
    }
    if (batch > samples) {
      plan_.warnings.push_back("--batch " + std::to_string(batch) + " is more than the " + std::to_string(samples) +
                               " training samples: each epoch is one step over all of them");
    }
  }

  /// Whether a run with `batch` would hand some device one image at once, in a full or in an epoch's last batch.
  [[nodiscard]] bool trains_on_one_image(int64_t batch, bool last) const {
    const int64_t samples = plan_.dataset.train.num_samples;
    const int64_t full_pieces = config_.train.micro_batch > 0
                                    ? ceil_divide(ceil_divide(batch, num_devices()), config_.train.micro_batch)
                                    : config_.train.accumulate;
    const int64_t count = last ? samples % batch : std::min(batch, samples);
    if (count == 0 || (last && config_.data.drop_last)) return false;
    const std::vector<int64_t> pieces = split_batch(count, num_devices(), pieces_of(count, batch, full_pieces));
    return std::ranges::any_of(pieces, [&](int64_t size) {
      const std::vector<int64_t> chunks = even_shares(size, norm_parts());
      return std::ranges::find(chunks, 1) != chunks.end();
    });
  }

  /// Known fault 3: without this, the run would end in LibTorch's "Expected more than 1 value per channel" after an
  /// epoch.
  void refuse_single_value_norms() const {
    const std::optional<std::string> norm = norm_over_one_value(plan_.model);
    if (!norm) return;
    const bool full = trains_on_one_image(plan_.global_batch, false);
    const bool last = plan_.total_steps >= plan_.steps_per_epoch && trains_on_one_image(plan_.global_batch, true);
    if (!full && !last) return;
    std::string message = "train.batch: --batch " + std::to_string(plan_.global_batch) + " on " +
                          count_of(num_devices(), "device") + " leaves ";
    message +=
        full ? "a device one image at once"
             : "an epoch's last batch of " + count_of(plan_.last_batch, "image") + " and a device one image of it";
    message += ", and " + *norm + " has one value a channel there: no variance to normalise by. Use ";
    if (!full) message += "--drop-last, or ";
    const std::optional<int64_t> other = nearest_safe_batch();
    message += other ? "another batch such as --batch " + std::to_string(*other) : "larger images or another batch";
    throw ConfigError(message);
  }

  [[nodiscard]] std::optional<int64_t> nearest_safe_batch() const {
    const auto safe = [&](int64_t batch) {
      return batch >= 1 && batch <= plan_.dataset.train.num_samples && !trains_on_one_image(batch, false) &&
             !trains_on_one_image(batch, true);
    };
    constexpr int64_t kFarthest = 4096;
    for (int64_t distance = 1; distance <= kFarthest; ++distance) {
      if (safe(plan_.global_batch - distance)) return plan_.global_batch - distance;
      if (safe(plan_.global_batch + distance)) return plan_.global_batch + distance;
    }
    return std::nullopt;
  }

  void plan_optimization() {
    plan_.optimizer = config_.optim.optimizer;
    plan_.schedule = config_.optim.schedule;
    plan_.learning_rate = learning_rate_in_force(config_.optim, plan_.global_batch);
    const LrSchedule schedule(config_.optim, plan_.learning_rate, plan_.steps_per_epoch, plan_.total_steps);
    plan_.warmup_steps = schedule.warmup_steps();
    if (plan_.warmup_steps >= plan_.total_steps) {
      plan_.warnings.push_back("the warm-up of " + count_of(plan_.warmup_steps, "step") +
                               " is not shorter than the run of " + count_of(plan_.total_steps, "step") +
                               ": the rate only rises");
    }
  }

  void estimate() {
    const int64_t element_bytes = plan_.dtype == "float64" ? 8 : 4;
    const double images = static_cast<double>(plan_.global_batch);
    // A multiply-add is two operations; backward computes the gradients of inputs and of weights.
    plan_.flops_per_step = 3 * 2 * static_cast<double>(plan_.model.macs_per_image()) * images;
    plan_.checkpoint_bytes =
        estimate_checkpoint_bytes(plan_.model, config_.optim, plan_.trainable_parameters, element_bytes);
    const std::vector<int64_t> largest_batch =
        micro_batch_sizes(plan_, std::min(plan_.global_batch, plan_.dataset.train.num_samples));
    double host = 0;
    for (size_t own = 0; own < plan_.selection.devices.size(); ++own) {
      const auto device = static_cast<size_t>(plan_.first_device) + own;
      int64_t chunk = 0;
      for (const int64_t size : largest_batch) chunk = std::max(chunk, even_shares(size, num_devices())[device]);
      const Device& where = plan_.selection.devices[own];
      const bool gpu = where.kind == DeviceKind::kCuda;
      const bool updates = device == 0 || plan_.strategy == StrategyKind::kRanks;  // holds optimizer state
      const uint64_t bytes = estimate_device_bytes(plan_.model, config_.optim, plan_.trainable_parameters,
                                                   element_bytes, chunk, updates, gpu);
      plan_.device_bytes.push_back(bytes);
      if (!gpu) host += static_cast<double>(bytes);
      if (gpu && where.memory_bytes > 0 && bytes > where.memory_bytes)
        warn_of_memory(where.label(), bytes, where.memory_bytes);
    }
    const Device& primary = plan_.selection.devices.front();
    if (primary.memory_bytes > 0 && host > static_cast<double>(primary.memory_bytes)) {
      warn_of_memory("the CPU", static_cast<uint64_t>(host), primary.memory_bytes);
    }
  }

  void warn_of_memory(const std::string& who, uint64_t needed, uint64_t there) {
    constexpr uint64_t kMebi = 1024 * 1024;
    plan_.warnings.push_back(who + " needs about " + std::to_string(needed / kMebi) + " MiB and has " +
                             std::to_string(there / kMebi) + " MiB: a smaller --batch, or --micro-batch, needs less");
  }

  void add_notes() {
    note_batch_norm();
    const bool whole_epoch = plan_.total_steps >= plan_.steps_per_epoch;
    if (plan_.dropped_samples > 0) {
      plan_.notes.push_back("--drop-last: " + count_of(plan_.dropped_samples, "sample") +
                            " of each epoch's order not trained on");
    } else if (plan_.last_batch == 1 && plan_.global_batch > 1 && whole_epoch) {
      plan_.warnings.push_back(
          "an epoch's last batch is one image: its update follows that image alone; --drop-last drops it");
    } else if (plan_.last_batch != plan_.global_batch) {
      plan_.notes.push_back("an epoch's last batch has " + count_of(plan_.last_batch, "sample") +
                            "; its gradient is the mean over its own samples, the learning rate the same");
    }
    if (!plan_.dataset.val) plan_.notes.push_back("no evaluation: the data set has no part for it, or --val none");
    if (plan_.strategy == StrategyKind::kRanks && num_devices() > 1) {
      plan_.notes.push_back("each rank has its own weights and optimizer state; gradients are summed" +
                            std::string(config_.parallel.grad_dtype == "bf16" ? " as bfloat16" : "") +
                            " over the ranks during backward");
    }
    if (plan_.strategy == StrategyKind::kDataParallel && plan_.selection.on_cpu()) {
      std::string note =
          "the forward pass of a CPU replica uses one core, the backward pass as many as there are replicas";
      const int cores = cpu_cores();
      if (cores > num_devices()) {
        note += "; of " + std::to_string(cores) + " cores " + std::to_string(cores - num_devices()) +
                " stay idle: more replicas, or --gpus cpu (one device, all cores), may be faster";
      }
      plan_.notes.push_back(note);
    }
  }

  /// The cores the CPU devices share.
  [[nodiscard]] int cpu_cores() const {
    int cores = 0;
    for (const Device& device : plan_.selection.devices) cores += device.threads;
    return cores;
  }

  void note_batch_norm() {
    const bool devices = num_devices() > 1, pieces = plan_.accumulate > 1;
    if (config_.parallel.sync_bn && !devices)
      plan_.notes.push_back("--sync-bn: with one device its statistics are those of all images anyway");
    if (!devices && !pieces) return;
    if (devices && config_.parallel.sync_bn) {
      plan_.notes.push_back("BatchNorm in training: statistics over " +
                            std::string(pieces ? "the global micro-batch" : "the global batch") + " (--sync-bn, " +
                            count_of(std::ranges::max(plan_.micro_batches), "image") +
                            " at most): each layer sends two messages more");
      return;
    }
    const bool ranks = plan_.strategy == StrategyKind::kRanks;
    const std::string chunk = devices && pieces ? "its chunk of a micro-batch"
                              : devices         ? "its chunk of the batch"
                                                : "each micro-batch";
    const int64_t images = ceil_divide(std::ranges::max(plan_.micro_batches), num_devices());
    plan_.notes.push_back(
        "BatchNorm in training: " +
        std::string(devices ? "each device normalises with the statistics of " : "the statistics are those of ") +
        chunk + " (" + count_of(images, "image") + " at most)" +
        (devices ? std::string("; the running statistics are those of ") + (ranks ? "rank 0, " : "the primary, ") +
                       plan_.selection.devices.front().label() +
                       (ranks ? ", and are broadcast before each evaluation; --sync-bn takes those of all ranks" : "")
                 : ""));
  }

  const CheckedConfig& checked_;
  const RunConfig& config_;
  RunPlan plan_;
};

}  // namespace

const char* strategy_name(StrategyKind strategy) {
  switch (strategy) {
    case StrategyKind::kSingle:
      return "single";
    case StrategyKind::kDataParallel:
      return "dp";
    case StrategyKind::kRanks:
      return "ddp";
  }
  return "";
}

void keep_one_device_if_asked(const RunConfig& config, Selection& selection) {
  const size_t devices = selection.devices.size();
  if (config.parallel.strategy != "single" || devices == 1) return;
  if (config.devices.gpus != "auto") {
    throw ConfigError("--strategy single uses one device, and --gpus " + selection.requested + " is " +
                      std::to_string(devices) + "; name one (`0,`), or use --strategy dp");
  }
  selection.notes.push_back("--strategy single: only " + selection.devices.front().label() + " of the " +
                            std::to_string(devices) + " devices is used");
  selection.devices.resize(1);
}

RunPlan make_plan(const CheckedConfig& config, const Selection& selection, const DatasetInfo& dataset,
                  const LaunchPlace& launch) {
  return Planner(config, selection, dataset, launch).make();
}

std::vector<int64_t> micro_batch_sizes(const RunPlan& plan, int64_t count) {
  return split_batch(count, plan.num_devices, pieces_of(count, plan.global_batch, plan.accumulate));
}

}  // namespace mgtrain
