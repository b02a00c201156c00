// Text against a pattern in which '#' stands for a digit, all else for itself. (std::regex costs seconds to compile
// and warns under sanitizers.)
#pragma once

#include <string_view>

namespace mgtrain {

inline bool fits(std::string_view text, std::string_view pattern) {
  if (text.size() != pattern.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool same = pattern[i] == '#' ? text[i] >= '0' && text[i] <= '9' : text[i] == pattern[i];
    if (!same) return false;
  }
  return true;
}

}  // namespace mgtrain
