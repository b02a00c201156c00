#include "base/printable.h"

#include <cstddef>

namespace mgtrain {

std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string shown;
  const auto escape = [&](unsigned char byte) { shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]}; };
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7f) {
      escape(byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      escape(next);
      ++i;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace mgtrain
