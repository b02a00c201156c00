// THE table: every config key with its C++ field, flag, type, unit, range or choices and help. TOML, --set,
// environment, flags, --print-config, `mgtrain config`, --help and docs/config.md all come from it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "config/run_config.h"

namespace mgtrain {

/// A value as it stands in TOML: bool, integer, float, string or list of strings.
using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

struct Option {
  /// kOptionalNumber: a number or the word "auto". kDuration: "30m", "2h", "90s" or the word "none".
  enum class Type { kBool, kInteger, kNumber, kString, kStrings, kEvery, kOptionalNumber, kDuration };
  std::string key;   // "optim.lr"
  std::string flag;  // "--lr", or empty: config key only
  Type type;
  std::string unit;                  // "steps", "pixels", ..., or empty
  std::string help;                  // one sentence
  std::vector<std::string> choices;  // strings only; empty: free text
  double minimum = 0, maximum = 0;   // numbers; inclusive
  bool hidden = false;               // not in help (tests)
  bool path = false;                 // a file or folder, unless it is one of the option's words
  bool integer_text = false;         // text that TOML may also give as an integer (gpus = 2)
  bool of_process = false;           // of one process of a run, not of the run: never in its config.toml
  /// Stores a text (as from a flag or the environment) or a TOML value; returns the problem, or nothing. After a
  /// problem the config is as before.
  std::function<std::optional<std::string>(RunConfig&, const OptionValue&)> set;
  /// The value in the form that set() takes.
  std::function<OptionValue(const RunConfig&)> get;
};

/// All options, in the order of the sections and fields of RunConfig.
std::span<const Option> options();
/// The option of a key, or null.
const Option* find_option(const std::string& key);
/// The section of a key ("optim" of "optim.lr") and its name in it ("lr").
std::string section_of(const std::string& key);
std::string name_in_section(const std::string& key);

/// What a person may write: "whole number", "number or auto", "period", "sgd | adam | adamw", ...
std::string type_text(const Option& option);
/// "0 or more", "1 to 256", "more than 0, less than 1", or empty.
std::string range_text(const Option& option);
/// The value as TOML writes it: true, 128, 0.1, "cosine", ["a", "b"]; numbers in their shortest exact form.
std::string toml_text(const OptionValue& value);
/// Whether the value may be given to the option from TOML, where types are strict; returns the problem, or nothing.
std::optional<std::string> toml_type_problem(const Option& option, const OptionValue& value);

}  // namespace mgtrain
