// The resolved configuration as TOML, with the origin of every value as a comment; valid input for --config.
#pragma once

#include <string>

#include "config/check.h"

namespace mgtrain {

/// `--print-config`: all keys, in table order, each with "# origin"; and `config.toml` of a run folder, without origins
/// and without what is of one process of the run (Option::of_process).
std::string render_toml(const CheckedConfig& config, bool with_origins);
/// The same from plain values (a checkpoint's effective config).
std::string render_toml(const RunConfig& config);
/// `mgtrain config`: every key with flag, type, default, range, unit and help; a page for a person, or Markdown
/// for docs/config.md.
std::string render_reference(bool markdown);

}  // namespace mgtrain
