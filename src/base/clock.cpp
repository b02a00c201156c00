#include "base/clock.h"

#include <chrono>
#include <ctime>

namespace mgtrain {

double SystemClock::monotonic_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double SystemClock::unix_seconds() const {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string compact_utc(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

}  // namespace mgtrain
