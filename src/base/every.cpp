#include "base/every.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace mgtrain {

namespace {

constexpr double kLargestSteps = 9007199254740992.0;  // 2^53: beyond, a double no longer counts in ones

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw ConfigError("\"" + std::string(text) + "\" is not a period: " + why +
                    "; write 100 or 100s (steps), 1e (epochs), 10m (minutes), 15% (of the run) or 0 (never)");
}

char suffix(Every::Unit unit) {
  switch (unit) {
    case Every::Unit::kSteps:
      return 's';
    case Every::Unit::kEpochs:
      return 'e';
    case Every::Unit::kMinutes:
      return 'm';
    case Every::Unit::kPercent:
      return '%';
  }
  return 's';
}

/// The period in steps as the user meant it, not rounded: half an epoch of 79 steps is 39.5.
double exact_steps(const Every& every, int64_t steps_per_epoch, int64_t total_steps) {
  switch (every.unit) {
    case Every::Unit::kSteps:
      return every.amount;
    case Every::Unit::kEpochs:
      return every.amount * static_cast<double>(steps_per_epoch);
    case Every::Unit::kPercent:
      return every.amount * static_cast<double>(total_steps) / 100;
    case Every::Unit::kMinutes:
      break;
  }
  throw ConfigError("\"" + to_string(every) + "\" is a time and has no number of steps; give steps, epochs or percent");
}

}  // namespace

Every parse_every(std::string_view text) {
  Every every;
  // Fixed notation only: the e of "1e" is a unit, not an exponent.
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), every.amount, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(every.amount)) refuse(text, "it does not start with a number");
  if (std::signbit(every.amount)) refuse(text, "it is negative");
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty() || unit == "s") {
    every.unit = Every::Unit::kSteps;
  } else if (unit == "e") {
    every.unit = Every::Unit::kEpochs;
  } else if (unit == "m") {
    every.unit = Every::Unit::kMinutes;
  } else if (unit == "%") {
    every.unit = Every::Unit::kPercent;
  } else {
    refuse(text, "the unit \"" + std::string(unit) + "\" is unknown");
  }
  if (every.unit == Every::Unit::kSteps && every.amount != std::floor(every.amount)) refuse(text, "steps are whole");
  if (every.unit == Every::Unit::kPercent && every.amount > 100) refuse(text, "it is more than the whole run");
  if (every.amount > kLargestSteps) refuse(text, "it is too large");
  return every;
}

std::string to_string(const Every& every) {
  std::array<char, 400> digits;
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), every.amount, std::chars_format::fixed);
  std::string text(digits.data(), end);
  if (every.unit != Every::Unit::kSteps) text += suffix(every.unit);
  return text;
}

int64_t to_steps(const Every& every, int64_t steps_per_epoch, int64_t total_steps) {
  const double steps = exact_steps(every, steps_per_epoch, total_steps);
  if (every.never()) return 0;
  if (steps >= kLargestSteps) return static_cast<int64_t>(kLargestSteps);
  return std::max<int64_t>(1, std::llround(steps));
}

Schedule::Schedule(Every every, int64_t steps_per_epoch, int64_t total_steps, double start_seconds)
    : every_(every), last_seconds_(start_seconds) {
  if (!every.never() && every.unit != Every::Unit::kMinutes) {
    period_steps_ = std::max(1.0, exact_steps(every, steps_per_epoch, total_steps));
  }
}

bool Schedule::due(int64_t step, double now_seconds) {
  if (every_.never()) return false;
  if (every_.unit == Every::Unit::kMinutes) {
    if (now_seconds - last_seconds_ < every_.amount * 60) return false;
    last_seconds_ = now_seconds;
    return true;
  }
  // The slack keeps 10 periods of 7.9 steps at step 79 whatever the rounding of 7.9.
  const auto periods = [&](int64_t at) { return std::floor(static_cast<double>(at) / period_steps_ + 1e-9); };
  const int64_t previous = last_step_ < 0 ? step - 1 : last_step_;
  last_step_ = step;
  return periods(step) > periods(previous);
}

}  // namespace mgtrain
