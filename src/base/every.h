// Periods as a user writes them: "100" or "100s" steps, "1e" epochs, "10m" minutes, "15%" of the run, "0" never.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mgtrain {

struct Every {
  enum class Unit { kSteps, kEpochs, kMinutes, kPercent };
  double amount = 0;  // 0: never
  Unit unit = Unit::kSteps;

  [[nodiscard]] bool never() const { return amount == 0; }
  friend bool operator==(const Every&, const Every&) = default;
};

/// Throws ConfigError naming the text and the accepted forms. Steps must be whole; percent in [0, 100].
Every parse_every(std::string_view text);
/// The shortest text that parse_every reads back to the same value.
std::string to_string(const Every& every);

/// The period in optimizer steps (at least 1 unless never); minutes have none: throws ConfigError.
int64_t to_steps(const Every& every, int64_t steps_per_epoch, int64_t total_steps);

/// Says at which steps a period is due. One object a purpose; not thread-safe. Periods in steps, epochs and percent
/// are counted from step 0 of the run, so a run resumed at step 150 is due at 200 for a period of 100, as an unbroken
/// one; fractions of a step are kept (0.5e of 79 steps is due at 40, 79, 119, 158).
class Schedule {
 public:
  Schedule(Every every, int64_t steps_per_epoch, int64_t total_steps, double start_seconds);
  /// True if the period ended between the previous call (before the first: step - 1) and now. `step` counts finished
  /// steps and never goes back.
  [[nodiscard]] bool due(int64_t step, double now_seconds);

 private:
  Every every_;
  double period_steps_ = 0;
  double last_seconds_ = 0;
  int64_t last_step_ = -1;  // none yet
};

}  // namespace mgtrain
