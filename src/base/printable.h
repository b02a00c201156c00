// Texts that strangers wrote, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace mgtrain {

/// The text with each control character, by which a terminal could be steered, as \xNN: those below 0x20, 0x7f, and
/// Unicode's C1 (U+0080 to U+009F). Pure; any thread.
std::string printable(std::string_view text);

}  // namespace mgtrain
