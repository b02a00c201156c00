// A TOML file as a flat list of dotted keys with line numbers. Knows TOML, not the options; toml++ stays in toml.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.h"

namespace mgtrain {

struct TomlEntry {
  std::string key;  // "optim.lr"
  int line = 0;
  std::optional<OptionValue> value;   // none: a table, or a value of another type
  bool integers = false;              // the list holds integers, given here as texts
  bool table = false, empty = false;  // a section; without entries
  std::string other;                  // what the value is, where there is none: "a date", "an array of tables"
};

struct TomlProblem {
  int line = 0;
  std::string key;  // may be empty
  std::string problem, hint;
};

struct TomlDocument {
  std::vector<TomlEntry> entries;     // by line
  std::vector<TomlProblem> problems;  // syntax errors and duplicate keys
};

/// Reads a document; a byte order mark and CR LF are accepted. After an error in one line of the form key = value,
/// reading goes on without that line, so that the other problems are found as well. Time, memory and depth are bounded
/// whatever the text: more than 1 MiB, 2,000 keys or 200 dots in a line are problems, and so is deep nesting.
TomlDocument read_toml(std::string_view text);

}  // namespace mgtrain
