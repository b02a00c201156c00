#include "observe/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mgtrain {
namespace {

std::string non_finite_text(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::string two_digits(int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); }

}  // namespace

std::string fixed_text(double value, int digits) {
  if (!std::isfinite(value)) return non_finite_text(value);
  // The largest double has 309 digits before the point.
  std::array<char, 384> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  return {buffer.data(), end.ptr};
}

std::string short_text(double value, int digits) {
  if (!std::isfinite(value)) return non_finite_text(value);
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits);
  return {buffer.data(), end.ptr};
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "-";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return std::to_string(whole / 60) + "m" + two_digits(whole % 60) + "s";
  return std::to_string(whole / 3600) + "h" + two_digits(whole % 3600 / 60) + "m";
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  // 999.95 would be printed as "1000.0".
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fixed_text(value, 1) + " " + kUnits[unit];
}

std::string value_text(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::none_of(text, [](unsigned char c) {
    return c <= ' ' || c == '"' || c == '\\' || c == 0x7f;
  });
  if (plain) return std::string(text);
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace mgtrain
