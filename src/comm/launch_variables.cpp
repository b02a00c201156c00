#include "comm/launch_variables.h"

#include <charconv>
#include <limits>

#include "base/error.h"

namespace mgtrain {

std::optional<int64_t> read_integer(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string LaunchVariables::text(std::string_view name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? "" : found->second;
}

int LaunchVariables::integer(std::string_view name, int64_t minimum, int64_t maximum, const std::string& why) const {
  const auto number = read_integer(text(name));
  if (!number || *number < minimum || *number > maximum) {
    refuse_value(name, "a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum) + why);
  }
  return static_cast<int>(*number);
}

int LaunchVariables::rank(std::string_view name, int size, std::string_view of) const {
  return integer(name, 0, size - 1, ", below " + std::string(of) + "=" + std::to_string(size));
}

uint16_t LaunchVariables::port(std::string_view name) const {
  return static_cast<uint16_t>(integer(name, 1, std::numeric_limits<uint16_t>::max()));
}

void LaunchVariables::need(std::string_view because, std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (has(name)) continue;
    refuse(shown(because) + " is set, but " + std::string(name) + " is not",
           "set " + std::string(name) + " too, unset " + std::string(because) +
               " if no launcher started this process, or give --rdzv HOST:PORT --rank R --world N");
  }
}

bool LaunchVariables::both(std::string_view one, std::string_view other) const {
  if (has(one)) need(one, {other});
  if (has(other)) need(other, {one});
  return has(one);
}

void LaunchVariables::refuse(const std::string& problem, const std::string& remedy) const {
  throw ConfigError(problem + " (" + owner_ + "); " + remedy);
}

void LaunchVariables::refuse_value(std::string_view name, const std::string& expected) const {
  refuse(shown(name) + ": expected " + expected,
         "correct it, unset it if no launcher started this process, or give --rdzv HOST:PORT --rank R --world N");
}

}  // namespace mgtrain
