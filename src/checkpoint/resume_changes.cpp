#include "checkpoint/resume_changes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/every.h"
#include "config/options.h"

namespace mgtrain {

namespace {

struct KeyRule {
  std::string_view key;  // a key, or a section with '.' at its end
  ResumeRule rule;
};

constexpr std::array kRules = {
    // Where and how often: nothing of it moves a weight.
    KeyRule{"checkpoint.save_every", ResumeRule::kTaken},
    KeyRule{"checkpoint.keep", ResumeRule::kTaken},
    KeyRule{"train.eval_every", ResumeRule::kTaken},
    KeyRule{"train.time_limit", ResumeRule::kTaken},
    KeyRule{"data.workers", ResumeRule::kTaken},
    KeyRule{"output.", ResumeRule::kTaken},
    // The place of the data may change; what they are is compared by fingerprint.
    KeyRule{"data.path", ResumeRule::kTaken},
    KeyRule{"data.format", ResumeRule::kTaken},
    // The same computation in another order of summation, or with BatchNorm statistics over other chunks.
    KeyRule{"devices.", ResumeRule::kTakenNumerics},
    KeyRule{"parallel.strategy", ResumeRule::kTakenNumerics},
    KeyRule{"parallel.sync_bn", ResumeRule::kTakenNumerics},
    KeyRule{"parallel.timeout", ResumeRule::kTaken},
    KeyRule{"train.accumulate", ResumeRule::kTakenNumerics},
    KeyRule{"train.micro_batch", ResumeRule::kTakenNumerics},
    KeyRule{"train.memory_format", ResumeRule::kTakenNumerics},
    KeyRule{"train.amp", ResumeRule::kTakenNumerics},
    KeyRule{"train.epochs", ResumeRule::kLength},
    KeyRule{"train.steps", ResumeRule::kLength},
    // Weights and optimizer state would not fit, or would mean something else.
    KeyRule{"model.name", ResumeRule::kNever},
    KeyRule{"model.width", ResumeRule::kNever},
    KeyRule{"model.stem", ResumeRule::kNever},
    KeyRule{"data.labels", ResumeRule::kNever},
    KeyRule{"optim.optimizer", ResumeRule::kNever},
};

/// The value that counts: a rate left to its default is the default.
OptionValue effective_value(const Option& option, const RunConfig& config) {
  if (option.key == "optim.lr" && !config.optim.lr) return config.optim.optimizer == "sgd" ? 0.1 : 0.001;
  return option.get(config);
}

bool in_percent(const std::string& period) {
  try {
    return parse_every(period).unit == Every::Unit::kPercent;
  } catch (const ConfigError&) {
    return false;
  }
}

/// Why the learning rate of a step depends on the length of the run, or nothing.
std::string why_length_matters(const OptimConfig& optim) {
  if (optim.schedule == "cosine" || optim.schedule == "onecycle") return "the " + optim.schedule + " schedule";
  if (!optim.warmup.never() && optim.warmup.unit == Every::Unit::kPercent) return "a warm-up in percent";
  if (optim.schedule == "step" && optim.step_size.unit == Every::Unit::kPercent) return "a step size in percent";
  if (optim.schedule == "multistep" && std::any_of(optim.milestones.begin(), optim.milestones.end(), in_percent))
    return "a milestone in percent";
  return "";
}

/// Optimizer updates of the whole run, or 0 if the steps of an epoch are not known.
int64_t total_steps(const TrainConfig& train, int64_t steps_per_epoch) {
  if (steps_per_epoch <= 0) return 0;
  const int64_t by_epochs = train.epochs * steps_per_epoch;
  return train.steps > 0 ? std::min(train.steps, by_epochs) : by_epochs;
}

class Comparison {
 public:
  Comparison(const RunConfig& saved, const RunConfig& now, int64_t total_saved, int64_t total_now)
      : saved_(saved), now_(now), total_saved_(total_saved), total_now_(total_now) {}

  void compare(const Option& option) {
    if (option.of_process) return;
    const OptionValue before = effective_value(option, saved_), after = effective_value(option, now_);
    if (before == after) return;
    const std::string change = option.key + ": " + toml_text(before) + " -> " + toml_text(after);
    switch (resume_rule(option.key)) {
      case ResumeRule::kTaken:
        taken_.push_back(change);
        break;
      case ResumeRule::kTakenNumerics:
        taken_.push_back(change + " (rounding, and BatchNorm statistics where shares change, differ from here on)");
        break;
      case ResumeRule::kLength:
        add_length(change);
        break;
      case ResumeRule::kRefused:
        refused_.push_back(change);
        break;
      case ResumeRule::kNever:
        never_.push_back(change);
        break;
    }
  }

  void compare_fingerprints(const std::string& before, const std::string& after) {
    if (before != after) never_.push_back("data fingerprint: " + shown(before) + " -> " + shown(after));
  }

  ResumeChanges result(bool allow_changes) const {
    if (!never_.empty())
      throw CheckpointError("the checkpoint is of another network or other data:" + lines(never_) +
                            (allow_changes ? "" : lines(refused_)) +
                            "\nStart a new run with --init to take over its weights");
    if (!refused_.empty() && !allow_changes)
      throw ConfigError("resuming would change the course of training (saved -> now):" + lines(refused_) +
                        "\nGive the saved values, or --resume-changes allow to go on with the new ones");
    return {.taken = taken_, .recorded = refused_};
  }

 private:
  static std::string shown(const std::string& fingerprint) { return fingerprint.empty() ? "none" : fingerprint; }

  static std::string lines(const std::vector<std::string>& changes) {
    std::string text;
    for (const std::string& change : changes) text += "\n  " + change;
    return text;
  }

  void add_length(const std::string& change) {
    const bool same_total = total_saved_ > 0 && total_saved_ == total_now_;
    const std::string before = why_length_matters(saved_.optim), after = why_length_matters(now_.optim);
    const std::string why = before.empty() ? after : before;
    if (same_total) {
      taken_.push_back(change + " (the run has " + std::to_string(total_now_) + " steps as before)");
    } else if (why.empty()) {
      taken_.push_back(change + " (learning rates do not depend on the run's length)");
    } else {
      refused_.push_back(change + " (" + why + " is " + stretched() + ", which moves every learning rate to come)");
    }
  }

  std::string stretched() const {
    if (total_saved_ == 0 || total_now_ == 0) return "stretched to the new length";
    return std::string(total_now_ > total_saved_ ? "stretched" : "compressed") + " from " +
           std::to_string(total_saved_) + " to " + std::to_string(total_now_) + " steps";
  }

  const RunConfig& saved_;
  const RunConfig& now_;
  int64_t total_saved_, total_now_;
  std::vector<std::string> taken_, refused_, never_;
};

}  // namespace

ResumeRule resume_rule(const std::string& key) {
  const std::string section = section_of(key) + ".";
  for (const KeyRule& rule : kRules) {
    if (rule.key == key || rule.key == section) return rule.rule;
  }
  return ResumeRule::kRefused;
}

ResumeChanges compare_for_resume(const RunConfig& saved, const RunConfig& now, bool allow_changes,
                                 const std::string& fingerprint_saved, const std::string& fingerprint_now,
                                 int64_t steps_per_epoch_saved, int64_t steps_per_epoch_now) {
  Comparison comparison(saved, now, total_steps(saved.train, steps_per_epoch_saved),
                        total_steps(now.train, steps_per_epoch_now));
  for (const Option& option : options()) comparison.compare(option);
  comparison.compare_fingerprints(fingerprint_saved, fingerprint_now);
  return comparison.result(allow_changes);
}

}  // namespace mgtrain
