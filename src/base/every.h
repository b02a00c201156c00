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

/// Says at which steps a period is due. One object a purpose; not thread-safe.
class Schedule {
 public:
  Schedule(Every every, int64_t steps_per_epoch, int64_t total_steps, double start_seconds);
  /// True if the period ended between the last call that returned true and now. `step` counts finished steps.
  [[nodiscard]] bool due(int64_t step, double now_seconds);

 private:
  Every every_;
  int64_t period_steps_ = 0;
  double last_seconds_ = 0;
  int64_t last_step_ = 0;
};

}  // namespace mgtrain
