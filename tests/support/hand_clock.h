// A clock that tests turn by hand. One thread.
#pragma once

#include "base/clock.h"

namespace mgtrain {

class HandClock final : public Clock {
 public:
  explicit HandClock(double unix_start = 1.7e9) : unix_start_(unix_start) {}
  void advance(double seconds) { elapsed_ += seconds; }
  [[nodiscard]] double monotonic_seconds() const override { return elapsed_; }
  [[nodiscard]] double unix_seconds() const override { return unix_start_ + elapsed_; }

 private:
  double unix_start_;
  double elapsed_ = 0;
};

}  // namespace mgtrain
