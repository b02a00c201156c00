// The options table in words: types, ranges and values as a person or TOML writes them.
#include <cmath>
#include <string_view>

#include "config/option_values.h"
#include "config/options.h"

namespace mgtrain {

namespace {

std::string toml_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          constexpr std::string_view kHex = "0123456789ABCDEF";
          out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

std::string toml_number(double value) {
  std::string text = number_text(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // 25 would be an integer
  return text;
}

template <typename... Cases>
struct Visitor : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Visitor(Cases...) -> Visitor<Cases...>;

std::string toml_type_name(const OptionValue& value) {
  return std::visit(Visitor{
                        [](bool) { return "a truth value"; },
                        [](int64_t) { return "an integer"; },
                        [](double) { return "a float"; },
                        [](const std::string&) { return "a string"; },
                        [](const std::vector<std::string>&) { return "an array"; },
                    },
                    value);
}

}  // namespace

std::string toml_text(const OptionValue& value) {
  return std::visit(Visitor{
                        [](bool flag) -> std::string { return flag ? "true" : "false"; },
                        [](int64_t integer) { return std::to_string(integer); },
                        [](double number) { return toml_number(number); },
                        [](const std::string& text) { return toml_string(text); },
                        [](const std::vector<std::string>& items) {
                          std::string out = "[";
                          for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + toml_string(item);
                          return out + "]";
                        },
                    },
                    value);
}

std::string type_text(const Option& option) {
  switch (option.type) {
    case Option::Type::kBool:
      return "true | false";
    case Option::Type::kInteger:
      return "whole number";
    case Option::Type::kNumber:
      return "number";
    case Option::Type::kStrings:
      return "list of texts";
    case Option::Type::kEvery:
      return "period";
    case Option::Type::kOptionalNumber:
      return "number or auto";
    case Option::Type::kDuration:
      return "duration or none";
    case Option::Type::kString:
      break;
  }
  if (option.choices.empty()) return "text";
  std::string text = option.choices.front();
  for (size_t i = 1; i < option.choices.size(); ++i) text += " | " + option.choices[i];
  return text;
}

std::string range_text(const Option& option) {
  const bool number = option.type == Option::Type::kInteger || option.type == Option::Type::kNumber ||
                      option.type == Option::Type::kOptionalNumber;
  if (!number) return "";
  const auto shown = [&](double value) {
    return option.type == Option::Type::kInteger ? std::to_string(static_cast<int64_t>(value)) : number_text(value);
  };
  const bool above_zero = option.minimum > 0 && option.minimum < 1e-300;
  const bool below_one = option.maximum < 1 && option.maximum > 0.999;
  // Limits such as 2^30 only keep arithmetic from overflowing; no user is near them.
  const bool open = option.maximum >= 1e9;
  const std::string low = above_zero ? "more than 0" : shown(option.minimum);
  if (open) return above_zero ? low : low + " or more";
  if (below_one) return low + " or more, less than 1";
  return low + " to " + shown(option.maximum);
}

std::optional<std::string> toml_type_problem(const Option& option, const OptionValue& value) {
  const bool text = std::holds_alternative<std::string>(value), integer = std::holds_alternative<int64_t>(value);
  bool fits = false;
  std::string wanted;
  switch (option.type) {
    case Option::Type::kBool:
      fits = std::holds_alternative<bool>(value), wanted = "true or false";
      break;
    case Option::Type::kInteger:
      fits = integer, wanted = "a whole number";
      break;
    case Option::Type::kNumber:
      fits = integer || std::holds_alternative<double>(value), wanted = "a number";
      break;
    case Option::Type::kOptionalNumber:
      fits = integer || std::holds_alternative<double>(value) || (text && std::get<std::string>(value) == "auto");
      wanted = "a number or \"auto\"";
      break;
    case Option::Type::kStrings:
      fits = std::holds_alternative<std::vector<std::string>>(value), wanted = "an array of strings";
      break;
    case Option::Type::kEvery:
      fits = text || integer, wanted = "a string such as \"1e\", or a number of steps";
      break;
    case Option::Type::kDuration:
      fits = text, wanted = "a string such as \"30m\"";
      break;
    case Option::Type::kString:
      fits = text || (integer && option.integer_text), wanted = "a string";
      break;
  }
  if (fits) return std::nullopt;
  return toml_type_name(value) + " (" + toml_text(value) + ") where " + wanted + " belongs";
}

}  // namespace mgtrain
