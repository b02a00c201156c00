#include "config/option_values.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace mgtrain {

namespace {

/// The number at the start of the text and what follows it; nothing where no finite number stands.
struct LeadingNumber {
  double value;
  std::string_view rest;
};

std::optional<LeadingNumber> leading_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return LeadingNumber{value, text.substr(static_cast<size_t>(end - text.data()))};
}

std::optional<double> whole_number_text(std::string_view text) {
  const auto number = leading_number(text);
  if (!number || !number->rest.empty()) return std::nullopt;
  return number->value;
}

std::string seen(const OptionValue& value) {
  return std::holds_alternative<std::string>(value) ? quoted_text(std::get<std::string>(value)) : toml_text(value);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> items;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) {
    items.push_back(text.substr(begin, end - begin));
  }
  items.push_back(text.substr(begin));
  return items;
}

}  // namespace

std::string quoted_text(const std::string& text) {
  constexpr size_t kLongest = 120;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongest ? "...\"" : "\"");
}

std::string number_text(double value) {
  std::array<char, 32> digits;
  // 0.0005 reads better than the shorter 5e-04.
  const double size = std::abs(value);
  const auto format =
      size == 0 || (size >= 1e-4 && size < 1e15) ? std::chars_format::fixed : std::chars_format::general;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value, format);
  return {digits.data(), end};
}

Read<bool> read_bool(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value)) {
    for (const char* yes : {"true", "1", "yes", "on"}) {
      if (*text == yes) return true;
    }
    for (const char* no : {"false", "0", "no", "off"}) {
      if (*text == no) return false;
    }
  }
  return ValueProblem{seen(value) + " is neither true nor false"};
}

Read<int64_t> read_integer(const OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* text = std::get_if<std::string>(&value)) {
    int64_t integer = 0;
    const char* last = text->data() + text->size();
    const auto [end, error] = std::from_chars(text->data(), last, integer);
    if (error == std::errc::result_out_of_range) return ValueProblem{quoted_text(*text) + " is too large"};
    if (error == std::errc() && end == last) return integer;
  }
  return ValueProblem{seen(value) + " is not a whole number"};
}

Read<double> read_number(const OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value); number != nullptr && std::isfinite(*number)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (const auto number = whole_number_text(*text)) return *number;
    if (text->find(',') != std::string::npos) {
      return ValueProblem{quoted_text(*text) + " is not a number: the decimal mark is a point, as in 0.1"};
    }
  }
  return ValueProblem{seen(value) + " is not a finite number"};
}

Read<std::string> read_text_value(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  return ValueProblem{seen(value) + " is not a text"};
}

Read<std::vector<std::string>> read_list(const OptionValue& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& item : *list) {
      if (item.empty()) return ValueProblem{toml_text(value) + " has an empty item"};
    }
    return *list;
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (text->empty()) return std::vector<std::string>{};
    std::vector<std::string> items = split(*text, ',');
    for (std::string& item : items) {
      const size_t first = item.find_first_not_of(' ');
      if (first == std::string::npos) return ValueProblem{quoted_text(*text) + " has an empty item"};
      item = item.substr(first, item.find_last_not_of(' ') - first + 1);
    }
    return items;
  }
  return ValueProblem{seen(value) + " is not a list"};
}

Read<std::optional<double>> read_duration(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && *text == "none") return std::optional<double>();
  if (text != nullptr) {
    if (const auto number = leading_number(*text)) {
      if (number->value <= 0) return ValueProblem{quoted_text(*text) + " is not longer than 0; \"none\" is no limit"};
      if (number->rest == "s") return std::optional(number->value / 60);
      if (number->rest == "m") return std::optional(number->value);
      if (number->rest == "h" && std::isfinite(number->value * 60)) return std::optional(number->value * 60);
      if (number->rest.empty()) {
        return ValueProblem{quoted_text(*text) + " has no unit; write " + *text + "m for minutes, or s or h"};
      }
    }
  }
  return ValueProblem{seen(value) + " is not a duration such as 30m, 2h, 90s, or none"};
}

std::string minutes_text(const std::optional<double>& minutes) {
  return minutes ? number_text(*minutes) + "m" : "none";
}

std::optional<std::string> val_problem(const std::string& text) {
  if (text.empty()) return "is empty; write auto, none, a share such as 10%, or a path";
  if (text.back() != '%') return std::nullopt;
  const auto number = leading_number(text);
  if (!number || number->rest != "%") return std::nullopt;  // a path that ends in %
  if (number->value > 0 && number->value < 100) return std::nullopt;
  return quoted_text(text) + " is not a share between 0% and 100%";
}

std::optional<std::string> normalize_problem(const std::string& text) {
  if (text == "dataset" || text == "none") return std::nullopt;
  const std::string wanted = quoted_text(text) +
                             " is not dataset, none, or means and standard deviations by channel in units of [0, 1] "
                             "such as \"0.49,0.48,0.45;0.25,0.24,0.26\"";
  const std::vector<std::string> halves = split(text, ';');
  if (halves.size() != 2) return wanted;
  const std::vector<std::string> means = split(halves[0], ','), deviations = split(halves[1], ',');
  if (means.size() != deviations.size()) return wanted + ": one mean and one deviation a channel";
  for (size_t i = 0; i < means.size(); ++i) {
    const auto mean = whole_number_text(means[i]), deviation = whole_number_text(deviations[i]);
    if (!mean || !deviation) return wanted;
    if (*deviation <= 0) return wanted + ": a standard deviation is more than 0";
  }
  return std::nullopt;
}

std::optional<std::string> lr_scale_problem(const std::string& text) {
  constexpr std::string_view kLinear = "linear:";
  if (text == "none") return std::nullopt;
  if (text.starts_with(kLinear)) {
    const auto base = read_integer(text.substr(kLinear.size()));
    if (const auto* batch = std::get_if<int64_t>(&base); batch != nullptr && *batch >= 1) return std::nullopt;
  }
  return quoted_text(text) + " is neither none nor linear:BATCH such as linear:256";
}

std::optional<std::string> assert_problem(const std::string& text) {
  for (const std::string_view metric : {"val.top1", "val.top5", "val.loss"}) {
    if (!text.starts_with(metric)) continue;
    std::string_view rest = std::string_view(text).substr(metric.size());
    for (const std::string_view comparison : {">=", "<=", ">", "<"}) {
      if (!rest.starts_with(comparison)) continue;
      rest.remove_prefix(comparison.size());
      if (whole_number_text(rest)) return std::nullopt;
      break;
    }
  }
  return quoted_text(text) +
         " is not METRIC COMPARISON NUMBER without spaces such as val.top1>=0.93 (metrics val.top1, val.top5, "
         "val.loss; comparisons >=, <=, >, <)";
}

std::optional<std::string> milestone_problem(const std::string& text) {
  try {
    const Every every = parse_every(text);
    if (every.never()) return quoted_text(text) + " is not after the start of the run";
    if (every.unit == Every::Unit::kMinutes) return quoted_text(text) + " is a time; write steps, epochs or percent";
  } catch (const ConfigError& error) {
    return error.what();
  }
  return std::nullopt;
}

bool is_not_a_path(const std::string& text) {
  if (text.empty() || text == "auto" || text == "none" || text.starts_with("synthetic:")) return true;
  const auto number = leading_number(text);
  return number && number->rest == "%";
}

}  // namespace mgtrain
