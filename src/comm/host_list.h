// SLURM's short forms: lists of hosts ("gpu[01-03,7],login1") and of counts a node ("4(x2),3"). Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mgtrain {

/// The hosts of a list, in its order. Brackets hold numbers and ranges, whose leading zeros are kept; a name may have
/// several ("r[1-2]n[01-04]", the last one counting fastest) and text after them. Throws ConfigError naming the item
/// and the problem; a list of more than a million hosts is one.
std::vector<std::string> expand_host_list(std::string_view list);

/// The counts of "4(x2),3": 4, 4, 3. Throws ConfigError for what is none.
std::vector<int> expand_counts(std::string_view list);

}  // namespace mgtrain
