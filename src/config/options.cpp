#include "config/options.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "config/nearest_name.h"
#include "config/option_values.h"

namespace mgtrain {

namespace {

using Type = Option::Type;
using Problem = std::optional<std::string>;
using TextCheck = Problem (*)(const std::string&);

struct Range {
  double minimum, maximum;
};

constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;
constexpr double kManySteps = 1e12;
constexpr double kLargestInteger = 9223372036854775807.0;

Problem range_problem(const Option& option, double value, const std::string& shown) {
  if (value >= option.minimum && value <= option.maximum) return std::nullopt;
  return shown + " is out of range: " + range_text(option);
}

Problem choice_problem(const Option& option, const std::string& text) {
  if (std::find(option.choices.begin(), option.choices.end(), text) != option.choices.end()) return std::nullopt;
  std::string problem = quoted_text(text) + " is not one of " + option.choices.front();
  for (size_t i = 1; i < option.choices.size(); ++i) problem += ", " + option.choices[i];
  const std::string nearest = nearest_name(text, option.choices);
  return nearest.empty() ? problem : problem + "; did you mean " + nearest + "?";
}

/// Adds the options of one section, a line each: name, flag, field, unit, range, help.
template <typename Section>
class SectionTable {
 public:
  SectionTable(std::string name, Section RunConfig::*section, std::vector<Option>& table)
      : name_(std::move(name)), section_(section), table_(table) {}

  Option& flag(const char* name, const char* flag, bool Section::*field, const char* help) {
    return add(Type::kBool, name, flag, "", help, {0, 0}, field,
               [](const Option&, const OptionValue& value) { return read_bool(value); });
  }

  template <typename Integer>
  Option& integer(const char* name, const char* flag, Integer Section::*field, const char* unit, Range range,
                  const char* help) {
    Option& option = add(Type::kInteger, name, flag, unit, help, range, field,
                         [](const Option& self, const OptionValue& value) -> Read<Integer> {
                           const Read<int64_t> read = read_integer(value);
                           if (const auto* problem = std::get_if<ValueProblem>(&read)) return *problem;
                           const int64_t number = std::get<int64_t>(read);
                           if (auto problem = range_problem(self, static_cast<double>(number), std::to_string(number)))
                             return ValueProblem{*problem};
                           return static_cast<Integer>(number);
                         });
    option.get = [*this, field](const RunConfig& config) -> OptionValue {
      return static_cast<int64_t>(config.*section_.*field);
    };
    return option;
  }

  Option& number(const char* name, const char* flag, double Section::*field, const char* unit, Range range,
                 const char* help) {
    return add(Type::kNumber, name, flag, unit, help, range, field,
               [](const Option& self, const OptionValue& value) -> Read<double> {
                 Read<double> read = read_number(value);
                 if (const auto* number = std::get_if<double>(&read)) {
                   if (auto problem = range_problem(self, *number, number_text(*number))) return ValueProblem{*problem};
                 }
                 return read;
               });
  }

  Option& optional_number(const char* name, const char* flag, std::optional<double> Section::*field, Range range,
                          const char* help) {
    Option& option = add(Type::kOptionalNumber, name, flag, "", help, range, field,
                         [](const Option& self, const OptionValue& value) -> Read<std::optional<double>> {
                           if (const auto* text = std::get_if<std::string>(&value); text != nullptr && *text == "auto")
                             return std::optional<double>();
                           const Read<double> read = read_number(value);
                           if (const auto* problem = std::get_if<ValueProblem>(&read)) return *problem;
                           const double number = std::get<double>(read);
                           if (auto problem = range_problem(self, number, number_text(number)))
                             return ValueProblem{*problem};
                           return std::optional(number);
                         });
    option.get = [*this, field](const RunConfig& config) -> OptionValue {
      const std::optional<double>& value = config.*section_.*field;
      if (!value) return std::string("auto");
      return *value;
    };
    return option;
  }

  Option& duration(const char* name, const char* flag, std::optional<double> Section::*field, const char* help) {
    Option& option = add(Type::kDuration, name, flag, "minutes", help, {kAboveZero, kAny}, field,
                         [](const Option&, const OptionValue& value) { return read_duration(value); });
    option.get = [*this, field](const RunConfig& config) -> OptionValue {
      return minutes_text(config.*section_.*field);
    };
    return option;
  }

  Option& text(const char* name, const char* flag, std::string Section::*field, const char* help,
               TextCheck check = nullptr) {
    return add(Type::kString, name, flag, "", help, {0, 0}, field,
               [check](const Option&, const OptionValue& value) -> Read<std::string> {
                 Read<std::string> read = read_text_value(value);
                 if (const auto* text = std::get_if<std::string>(&read); text != nullptr && check != nullptr) {
                   if (auto problem = check(*text)) return ValueProblem{*problem};
                 }
                 return read;
               });
  }

  Option& choice(const char* name, const char* flag, std::string Section::*field, std::vector<std::string> choices,
                 const char* help) {
    Option& option = add(Type::kString, name, flag, "", help, {0, 0}, field,
                         [](const Option& self, const OptionValue& value) -> Read<std::string> {
                           Read<std::string> read = read_text_value(value);
                           if (const auto* text = std::get_if<std::string>(&read)) {
                             if (auto problem = choice_problem(self, *text)) return ValueProblem{*problem};
                           }
                           return read;
                         });
    option.choices = std::move(choices);
    return option;
  }

  Option& list(const char* name, const char* flag, std::vector<std::string> Section::*field, const char* help,
               TextCheck check = nullptr) {
    return add(Type::kStrings, name, flag, "", help, {0, 0}, field,
               [check](const Option&, const OptionValue& value) -> Read<std::vector<std::string>> {
                 Read<std::vector<std::string>> read = read_list(value);
                 if (const auto* items = std::get_if<std::vector<std::string>>(&read); items && check != nullptr) {
                   for (const std::string& item : *items) {
                     if (auto problem = check(item)) return ValueProblem{*problem};
                   }
                 }
                 return read;
               });
  }

  /// A period; in minutes only where time may decide, 0 only where never makes sense.
  Option& every(const char* name, const char* flag, Every Section::*field, bool minutes, bool never, const char* help) {
    Option& option = add(
        Type::kEvery, name, flag, minutes ? "steps, e, m, %" : "steps, e, %", help, {0, 0}, field,
        [minutes, never](const Option&, const OptionValue& value) -> Read<Every> {
          const Read<std::string> read = read_text_value(value);
          if (const auto* problem = std::get_if<ValueProblem>(&read)) return *problem;
          try {
            const Every period = parse_every(std::get<std::string>(read));
            if (!minutes && period.unit == Every::Unit::kMinutes)
              return ValueProblem{quoted_text(std::get<std::string>(read)) +
                                  " is a time; write steps, epochs (2e) or "
                                  "percent of the run (5%)"};
            if (!never && period.never())
              return ValueProblem{quoted_text(std::get<std::string>(read)) + " is no period here; write 1e or more"};
            return period;
          } catch (const ConfigError& error) {
            return ValueProblem{error.what()};
          }
        });
    option.get = [*this, field](const RunConfig& config) -> OptionValue { return to_string(config.*section_.*field); };
    option.integer_text = true;
    return option;
  }

 private:
  template <typename Field, typename Reader>
  Option& add(Type type, const char* name, const char* flag, const char* unit, const char* help, Range range,
              Field Section::*field, Reader reader) {
    Option option;
    option.key = name_ + "." + name;
    option.flag = flag;
    option.type = type;
    option.unit = unit;
    option.help = help;
    option.minimum = range.minimum;
    option.maximum = range.maximum;
    const auto section = section_;
    // The option's own range and choices are read from the finished table, so `set` cannot disagree with the help.
    option.set = [reader, section, field, key = option.key](RunConfig& config, const OptionValue& value) -> Problem {
      auto read = reader(*find_option(key), value);
      if (auto* problem = std::get_if<ValueProblem>(&read)) return problem->text;
      config.*section.*field = std::move(std::get<0>(read));
      return std::nullopt;
    };
    if constexpr (std::is_convertible_v<Field, OptionValue>) {
      option.get = [section, field](const RunConfig& config) -> OptionValue { return config.*section.*field; };
    }
    table_.push_back(std::move(option));
    return table_.back();
  }

  std::string name_;
  Section RunConfig::*section_;
  std::vector<Option>& table_;
};

void add_data(std::vector<Option>& table) {
  SectionTable data("data", &RunConfig::data, table);
  data.text("path", "--data", &DataConfig::path,
            "Data set: a folder, a file in it, or synthetic:SHAPE; empty: the embedded Fashion-MNIST subset")
      .path = true;
  data.choice("format", "--data-format", &DataConfig::format, {"auto", "idx", "cifar10", "cifar100", "synthetic"},
              "Format of the data set; auto recognises it");
  data.choice("labels", "", &DataConfig::labels, {"fine", "coarse"}, "Which label of CIFAR-100 is learnt");
  data.text("val", "--val", &DataConfig::val,
            "Data for evaluation: auto (the set's own test part), none, a share held out such as 10%, or another path",
            val_problem)
      .path = true;
  data.flag("drop_last", "--drop-last", &DataConfig::drop_last,
            "Drop the last partial batch of an epoch instead of training on it");
  data.integer("resize", "", &DataConfig::resize, "pixels", {0, 4096}, "Resize images to this square; 0: as stored");
  data.integer("crop_padding", "", &DataConfig::crop_padding, "pixels", {0, 1024},
               "Zero padding around an image before a random crop to its size; 0: no crop");
  data.flag("flip", "", &DataConfig::flip, "Flip training images left to right with probability 0.5");
  data.text("normalize", "", &DataConfig::normalize,
            "Normalisation: dataset (its own mean and deviation), none, or \"mean,...;deviation,...\" by channel",
            normalize_problem);
  data.integer("workers", "--workers", &DataConfig::workers, "threads", {0, 256},
               "Threads that prepare images; 0: the training thread does; results do not depend on it");
  data.integer("prefetch", "", &DataConfig::prefetch, "batches", {1, 1024}, "Batches held ready ahead of training");
}

void add_model(std::vector<Option>& table) {
  SectionTable model("model", &RunConfig::model, table);
  model.choice("name", "--model", &ModelConfig::name, {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"},
               "Network");
  model.integer("width", "--width", &ModelConfig::width, "channels", {1, 1024},
                "Channels of the first stage; 64 is the standard network");
  model.choice("stem", "--stem", &ModelConfig::stem, {"auto", "cifar", "imagenet"},
               "First layers: imagenet (7x7/2, max-pool), cifar (3x3, no pool); auto: cifar up to 64 pixels");
  model.flag("zero_init_residual", "", &ModelConfig::zero_init_residual,
             "Start with the scale of each block's last BatchNorm at zero");
  model
      .text("init", "--init", &ModelConfig::init,
            "Weights to start from: a safetensors file, a checkpoint or a run folder; empty: random")
      .path = true;
  model.flag("reset_head", "--reset-head", &ModelConfig::reset_head,
             "With --init: start with a new classification layer");
  model.flag("allow_missing", "--allow-missing", &ModelConfig::allow_missing,
             "With --init: tensors that the file lacks keep their random values");
  model.list("freeze", "--freeze", &ModelConfig::freeze,
             "Name prefixes of parameters that do not train, such as conv1,layer1 (repeatable)");
}

void add_optim(std::vector<Option>& table) {
  SectionTable optim("optim", &RunConfig::optim, table);
  optim.choice("optimizer", "--optimizer", &OptimConfig::optimizer, {"sgd", "adam", "adamw"}, "Optimizer");
  optim.optional_number("lr", "--lr", &OptimConfig::lr, {0, kAny},
                        "Learning rate for the global batch; auto: 0.1 for sgd, 0.001 for adam and adamw");
  optim.text("lr_scale", "--lr-scale", &OptimConfig::lr_scale,
             "Scaling of the learning rate: none, or linear:256 (rate * batch / 256)", lr_scale_problem);
  optim.number("momentum", "--momentum", &OptimConfig::momentum, "", {0, kBelowOne}, "Momentum of sgd");
  optim.flag("nesterov", "", &OptimConfig::nesterov, "Nesterov momentum for sgd");
  optim.number("beta1", "", &OptimConfig::beta1, "", {0, kBelowOne}, "First moment's decay of adam and adamw");
  optim.number("beta2", "", &OptimConfig::beta2, "", {0, kBelowOne}, "Second moment's decay of adam and adamw");
  optim.number("eps", "", &OptimConfig::eps, "", {kAboveZero, kAny}, "Term added to the denominator of adam and adamw");
  optim.number("weight_decay", "--weight-decay", &OptimConfig::weight_decay, "", {0, kAny}, "Weight decay");
  optim.flag("decay_norms", "", &OptimConfig::decay_norms,
             "Apply weight decay to parameters of norms and to biases as well");
  optim.choice("schedule", "--schedule", &OptimConfig::schedule,
               {"constant", "step", "multistep", "cosine", "onecycle"}, "How the learning rate changes over the run");
  optim.every("warmup", "--warmup", &OptimConfig::warmup, false, true,
              "Length of the linear warm-up, such as 500, 5e or 15%; 0: none");
  optim.every("step_size", "", &OptimConfig::step_size, false, false, "Schedule step: period between two decays");
  optim
      .list("milestones", "", &OptimConfig::milestones,
            "Schedule multistep: when the rate decays, such as [\"80e\", \"120e\"]", milestone_problem)
      .integer_text = true;
  optim.number("gamma", "", &OptimConfig::gamma, "", {kAboveZero, kAny}, "Schedules step and multistep: decay factor");
  optim.number("min_lr", "", &OptimConfig::min_lr, "", {0, kAny}, "Schedule cosine: learning rate at the end");
  optim.number("onecycle_start", "", &OptimConfig::onecycle_start, "", {kAboveZero, kAny},
               "Schedule onecycle: highest rate / first rate");
  optim.number("onecycle_end", "", &OptimConfig::onecycle_end, "", {kAboveZero, kAny},
               "Schedule onecycle: first rate / last rate");
  optim.number("onecycle_rise", "", &OptimConfig::onecycle_rise, "", {0, 1},
               "Schedule onecycle: share of the run spent rising");
  optim.number("label_smoothing", "--label-smoothing", &OptimConfig::label_smoothing, "", {0, 1},
               "Share of the target spread evenly over all classes");
  optim.number("clip_grad", "--clip-grad", &OptimConfig::clip_grad, "", {0, kAny},
               "Largest global L2 norm of the gradient; 0: no clipping");
}

void add_train(std::vector<Option>& table) {
  SectionTable train("train", &RunConfig::train, table);
  train.integer("epochs", "--epochs", &TrainConfig::epochs, "epochs", {1, 1e9},
                "Passes over the training data; the first of epochs and steps ends the run");
  train.integer("steps", "--steps", &TrainConfig::steps, "steps", {0, kManySteps},
                "Optimizer updates after which the run ends; 0: no limit");
  train.integer("batch", "--batch", &TrainConfig::batch, "images", {1, 1 << 30},
                "Global batch: images an optimizer update, over all devices and accumulation steps");
  train.integer("micro_batch", "--micro-batch", &TrainConfig::micro_batch, "images", {0, 1 << 30},
                "Images of one device's share that run at once; 0: decided by accumulate");
  train.integer("accumulate", "--accumulate", &TrainConfig::accumulate, "pieces", {1, 1 << 30},
                "Pieces that a batch is run in, one after the other");
  train.integer("seed", "--seed", &TrainConfig::seed, "", {0, kLargestInteger},
                "Seed of every random number of the run");
  train.choice("dtype", "", &TrainConfig::dtype, {"float32", "float64"},
               "Numbers of the model; float64 serves to verify numerics");
  train.choice("memory_format", "--memory-format", &TrainConfig::memory_format, {"auto", "nchw", "nhwc"},
               "Order of image tensors in memory; auto: the faster one on the devices of the run");
  train.flag("deterministic", "--deterministic", &TrainConfig::deterministic,
             "Use only algorithms that repeat bit for bit, or fail");
  train.choice("on_nan", "--on-nan", &TrainConfig::on_nan, {"stop"},
               "What a NaN or Inf in loss or gradient does; stop: the run ends with exit code 6");
  train.every("eval_every", "--eval-every", &TrainConfig::eval_every, true, true,
              "Period of evaluation, such as 500, 1e, 10m or 20%; 0: only at the end");
  train.duration("time_limit", "--time-limit", &TrainConfig::time_limit_minutes,
                 "Time after which the run saves a checkpoint and ends well, such as 30m, 2h, 90s; none: no limit");
  train.integer("early_stop", "--early-stop", &TrainConfig::early_stop, "evaluations", {0, 1e9},
                "Evaluations without a better metric after which the run ends; 0: never");
  train.list("assert", "--assert", &TrainConfig::asserts,
             "Conditions checked at the end, such as val.top1>=0.93; exit code 1 if one fails (repeatable)",
             assert_problem);
}

void add_devices(std::vector<Option>& table) {
  SectionTable devices("devices", &RunConfig::devices, table);
  devices
      .text("gpus", "--gpus", &DevicesConfig::gpus,
            "Devices: auto, a count (2), indices (0,1 or 3, or 0-3), UUIDs, all, cpu, or cpu:4")
      .integer_text = true;
  devices
      .text("primary", "--primary", &DevicesConfig::primary,
            "Which of the devices gathers and updates; empty: the first")
      .integer_text = true;
  devices.choice(
      "missing_gpus", "--missing-gpus", &DevicesConfig::missing_gpus, {"auto", "error", "skip"},
      "If GPUs asked for are missing; auto: CPU replicas where there is no NVIDIA GPU at all, else an error");
  devices.flag("allow_duplicates", "", &DevicesConfig::allow_duplicates, "Allow the same GPU twice (tests)").hidden =
      true;
}

void add_parallel(std::vector<Option>& table) {
  SectionTable parallel("parallel", &RunConfig::parallel, table);
  parallel.choice(
      "strategy", "--strategy", &ParallelConfig::strategy, {"auto", "single", "dp", "ddp"},
      "How devices share a step; auto: single on one device, dp (torch::nn::parallel) on several; ddp: a rank "
      "a device");
  parallel.flag("sync_bn", "--sync-bn", &ParallelConfig::sync_bn,
                "ddp: BatchNorm in training by the statistics of all ranks' images");
  parallel.choice("grad_dtype", "--grad-dtype", &ParallelConfig::grad_dtype, {"auto", "bf16"},
                  "ddp: what gradients travel as between ranks; auto: as they are");
  parallel.number("timeout", "--timeout", &ParallelConfig::timeout, "seconds", {kAboveZero, 1e6},
                  "ddp: how long a rank waits for the others before the run ends with exit code 7");
  parallel
      .text(
          "rdzv", "--rdzv", &ParallelConfig::rdzv,
          "Where the ranks of several processes meet: HOST:PORT of the first; empty: as torchrun, srun or mpirun says")
      .of_process = true;
  parallel
      .integer("rank", "--rank", &ParallelConfig::rank, "", {-1, 999'999},
               "Which rank this process is, with --rdzv and --world; -1: as the launcher says")
      .of_process = true;
  parallel
      .integer("world", "--world", &ParallelConfig::world, "ranks", {0, 1'000'000},
               "How many ranks there are, with --rdzv and --rank; 0: as the launcher says")
      .of_process = true;
}

void add_checkpoint(std::vector<Option>& table) {
  SectionTable checkpoint("checkpoint", &RunConfig::checkpoint, table);
  checkpoint.every("save_every", "--save-every", &CheckpointConfig::save_every, true, true,
                   "Period of checkpoints, such as 500, 1e, 10m or 20%; 0: only the last step");
  checkpoint.integer("keep", "--keep", &CheckpointConfig::keep, "checkpoints", {2, 1e9},
                     "Newest checkpoints kept; at least 2, so that a damaged one leaves another");
  checkpoint.choice("best", "", &CheckpointConfig::best, {"val.top1", "val.top5", "val.loss"},
                    "Metric that decides which checkpoint is the best");
}

void add_output(std::vector<Option>& table) {
  SectionTable output("output", &RunConfig::output, table);
  output.every("log_every", "--log-every", &OutputConfig::log_every, true, true,
               "Period of reports, such as 50, 1e or 1m; 0: never");
  output.choice("log_level", "--log-level", &OutputConfig::log_level, {"debug", "info", "warning", "error"},
                "Least important lines that are logged on stderr");
  output.flag("trace_samples", "--trace-samples", &OutputConfig::trace_samples,
              "Write the order of samples to samples.txt in the run folder");
  output.flag("tensorboard", "", &OutputConfig::tensorboard, "Write TensorBoard event files");
}

std::vector<Option> make_options() {
  std::vector<Option> table;
  add_data(table);
  add_model(table);
  add_optim(table);
  add_train(table);
  add_devices(table);
  add_parallel(table);
  add_checkpoint(table);
  add_output(table);
  return table;
}

}  // namespace

std::span<const Option> options() {
  static const std::vector<Option> table = make_options();
  return table;
}

const Option* find_option(const std::string& key) {
  static const std::unordered_map<std::string, const Option*> by_key = [] {
    std::unordered_map<std::string, const Option*> index;
    for (const Option& option : options()) index[option.key] = &option;
    return index;
  }();
  const auto found = by_key.find(key);
  return found == by_key.end() ? nullptr : found->second;
}

std::string section_of(const std::string& key) { return key.substr(0, key.find('.')); }

std::string name_in_section(const std::string& key) { return key.substr(key.find('.') + 1); }

}  // namespace mgtrain
