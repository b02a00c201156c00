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
  enum class Type { kBool, kInteger, kNumber, kString, kStrings, kEvery, kOptionalNumber };
  std::string key;                       // "optim.lr"
  std::string flag;                      // "--lr", or empty: config key only
  Type type;
  std::string unit;                      // "steps", "pixels", ..., or empty
  std::string help;                      // one sentence
  std::vector<std::string> choices;      // strings only; empty: free text
  double minimum, maximum;               // numbers; inclusive
  bool hidden = false;                   // not in help (tests)
  /// Stores a text (as from a flag or the environment) or a TOML value; returns the problem, or nothing.
  std::function<std::optional<std::string>(RunConfig&, const OptionValue&)> set;
  std::function<OptionValue(const RunConfig&)> get;
};

/// All options, in the order of the sections and fields of RunConfig.
std::span<const Option> options();
/// The option of a key, or null.
const Option* find_option(const std::string& key);

}  // namespace mgtrain
