// The commands of mgtrain and what each takes: one table from which cli.cpp parses and help.cpp prints. Flags of
// config keys come from the options table; the flags here are those that are no config.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "app/commands.h"
#include "config/options.h"

namespace mgtrain {

/// A flag that is no config key.
struct OwnFlag {
  std::string name;   // "--output"
  std::string value;  // "DIR"; empty: true or false
  bool repeatable;
  std::string help;
};

struct CommandSpec {
  std::vector<std::string> words;  // {"data", "info"}
  CommandLine::Command command;
  std::string positionals;  // "RUN [ITEM...]"
  size_t min_items, max_items;
  std::string summary;
  std::vector<std::string> own_flags;   // names
  bool (*takes)(const Option& option);  // which config keys
  std::vector<std::string> examples;    // without the leading "mgtrain "
};

/// All commands; the first is train, the default.
std::span<const CommandSpec> commands();
std::span<const OwnFlag> own_flags();
const OwnFlag& own_flag(const std::string& name);

/// "mgtrain data info".
std::string spoken_name(const CommandSpec& spec);
/// Whether the option has a flag that a person may give to the command.
bool takes_flag(const CommandSpec& spec, const Option& option);

/// `mgtrain --help` (no command), or that of one command.
std::string help_page(const CommandSpec* spec);

}  // namespace mgtrain
