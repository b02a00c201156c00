// Numbers as text for people and for key=value lines. Never follows the locale: the decimal point is a point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mgtrain {

/// `digits` digits after the point; "nan", "inf", "-inf" for what is not finite.
std::string fixed_text(double value, int digits);
/// Up to `digits` significant digits, as short as it goes: "0.1", "0.05", "1e-05".
std::string short_text(double value, int digits = 6);
/// "4s", "1m05s", "2h07m"; "-" if unknown (not finite or negative).
std::string duration_text(double seconds);
/// "12.3 MB" in powers of 1000.
std::string bytes_text(uint64_t bytes);
/// `text` as it is if it has neither blanks nor quotes nor control characters, else as a JSON string.
std::string value_text(std::string_view text);
/// `text` followed by blanks up to `width` characters.
std::string padded(std::string text, size_t width);

}  // namespace mgtrain
