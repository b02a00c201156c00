// "Did you mean ...?": the known name closest to what the user wrote.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mgtrain {

/// The candidate closest to `name` by edit distance (insert, delete, replace, swap of neighbours), not looking at
/// case, at leading dashes, or at '-' against '_'; of dotted names the last parts are compared as well, so that a key
/// in the wrong section is found. Names usual in other trainers count as close ("batch_size" -> "batch"). Empty if
/// nothing is close.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace mgtrain
