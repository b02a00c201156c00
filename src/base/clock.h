// Time, behind an interface so that tests turn it by hand. All methods may be called from any thread.
#pragma once

#include <string>

namespace mgtrain {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since an arbitrary start; never goes back.
  [[nodiscard]] virtual double monotonic_seconds() const = 0;
  /// Seconds since 1970-01-01 UTC.
  [[nodiscard]] virtual double unix_seconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override;
  [[nodiscard]] double unix_seconds() const override;
};

/// "20261201T062322Z": UTC, sorts by time, safe in file names.
std::string compact_utc(double unix_seconds);

}  // namespace mgtrain
