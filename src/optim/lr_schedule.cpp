#include "optim/lr_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/error.h"

namespace mgtrain {
namespace {

/// PyTorch's cosine annealing from `start` to `end`; `share` in [0, 1].
double anneal(double start, double end, double share) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * share));
}

/// Periods of zero length would decay at every step without end.
int64_t positive_steps(const Every& every, const char* key, int64_t steps_per_epoch, int64_t total_steps) {
  if (every.never()) throw ConfigError(std::string(key) + " is 0, expected a period such as 30e or 1000s");
  return std::max<int64_t>(1, to_steps(every, steps_per_epoch, total_steps));
}

}  // namespace

// Every schedule starts at its position 0 after the warm-up, as torch.optim.lr_scheduler.SequentialLR has it.
LrSchedule::LrSchedule(const OptimConfig& config, double base_lr, int64_t steps_per_epoch, int64_t total_steps)
    : config_(config), base_lr_(base_lr), steps_per_epoch_(steps_per_epoch), total_steps_(total_steps) {
  warmup_steps_ = config.warmup.never() ? 0 : to_steps(config.warmup, steps_per_epoch, total_steps);
  if (config.schedule == "step") {
    step_size_ = positive_steps(config.step_size, "optim.step_size", steps_per_epoch, total_steps);
  } else if (config.schedule == "multistep") {
    for (const std::string& milestone : config.milestones) {
      milestones_.push_back(positive_steps(parse_every(milestone), "optim.milestones", steps_per_epoch, total_steps));
    }
    std::ranges::sort(milestones_);
  } else if (config.schedule != "constant" && config.schedule != "cosine" && config.schedule != "onecycle") {
    throw ConfigError("optim.schedule: \"" + config.schedule +
                      "\" is not a schedule; choose constant, step, multistep, cosine or onecycle");
  }
}

double LrSchedule::scheduled(int64_t position) const {
  const int64_t length = std::max<int64_t>(1, total_steps_ - warmup_steps_);
  if (config_.schedule == "step") {
    const int64_t decays = position / step_size_;
    return base_lr_ * std::pow(config_.gamma, static_cast<double>(decays));
  }
  if (config_.schedule == "multistep") {
    const auto passed = std::ranges::upper_bound(milestones_, position) - milestones_.begin();
    return base_lr_ * std::pow(config_.gamma, static_cast<double>(passed));
  }
  if (config_.schedule == "cosine") {
    return anneal(base_lr_, config_.min_lr, static_cast<double>(position) / static_cast<double>(length));
  }
  if (config_.schedule == "onecycle") {
    const double first = base_lr_ / config_.onecycle_start, last = first / config_.onecycle_end;
    const double peak_at = config_.onecycle_rise * static_cast<double>(length) - 1;
    const double end = static_cast<double>(length - 1), now = static_cast<double>(position);
    if (now <= peak_at) return peak_at > 0 ? anneal(first, base_lr_, now / peak_at) : base_lr_;
    return end > peak_at ? anneal(base_lr_, last, (now - peak_at) / (end - peak_at)) : last;
  }
  return base_lr_;
}

double LrSchedule::at(int64_t step) const {
  if (step >= warmup_steps_) return scheduled(step - warmup_steps_);
  return scheduled(0) * static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
}

bool LrSchedule::depends_on_total() const {
  const auto in_percent = [](const Every& every) { return !every.never() && every.unit == Every::Unit::kPercent; };
  if (in_percent(config_.warmup)) return true;
  if (config_.schedule == "cosine" || config_.schedule == "onecycle") return true;
  if (config_.schedule == "step") return in_percent(config_.step_size);
  return config_.schedule == "multistep" && std::ranges::any_of(config_.milestones, [&](const std::string& text) {
           return in_percent(parse_every(text));
         });
}

double learning_rate_in_force(const OptimConfig& config, int64_t batch) {
  const double asked = config.lr.value_or(config.optimizer == "sgd" ? 0.1 : 0.001);
  if (config.lr_scale == "none") return asked;
  constexpr std::string_view kLinear = "linear:";
  const std::string_view text = config.lr_scale;
  int64_t reference = 0;
  if (text.starts_with(kLinear)) {
    const auto [end, error] = std::from_chars(text.data() + kLinear.size(), text.data() + text.size(), reference);
    if (error != std::errc{} || end != text.data() + text.size()) reference = 0;
  }
  if (reference < 1) {
    throw ConfigError("optim.lr_scale: \"" + config.lr_scale +
                      "\", expected none or linear:N with N >= 1 (linear:256)");
  }
  return asked * static_cast<double>(batch) / static_cast<double>(reference);
}

}  // namespace mgtrain
