// Texts to values and back, for the options table. Nothing here follows the locale; nan and inf are refused. A
// reader returns the value or, as its problem, what was seen and what is wanted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/options.h"

namespace mgtrain {

struct ValueProblem {
  std::string text;
};

template <typename T>
using Read = std::variant<T, ValueProblem>;

/// The text in double quotes, control characters escaped and very long texts cut: for messages.
std::string quoted_text(const std::string& text);
/// The number in its shortest form that reads back to the same value.
std::string number_text(double value);

Read<bool> read_bool(const OptionValue& value);
Read<int64_t> read_integer(const OptionValue& value);
Read<double> read_number(const OptionValue& value);
Read<std::string> read_text_value(const OptionValue& value);
/// A list, or a text with items between commas.
Read<std::vector<std::string>> read_list(const OptionValue& value);
/// "30m", "2h", "90s" in minutes; "none": nothing.
Read<std::optional<double>> read_duration(const OptionValue& value);
/// The minutes as read_duration reads them back.
std::string minutes_text(const std::optional<double>& minutes);

/// Forms of texts that have a grammar; each returns the problem, or nothing.
std::optional<std::string> val_problem(const std::string& text);
std::optional<std::string> normalize_problem(const std::string& text);
std::optional<std::string> lr_scale_problem(const std::string& text);
std::optional<std::string> assert_problem(const std::string& text);
std::optional<std::string> milestone_problem(const std::string& text);
/// Whether the text of a path option is a word ("auto", "synthetic:...", "10%") and not a path.
bool is_not_a_path(const std::string& text);

}  // namespace mgtrain
