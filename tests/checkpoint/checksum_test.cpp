#include "checkpoint/checksum.h"

#include "support/catch.h"

namespace mgtrain {
namespace {

std::string checksum(std::string_view text) {
  Xxh3 checksum;
  checksum.update(text);
  return checksum.hex();
}

TEST_CASE("XXH3-128 is the published one", "[checkpoint]") {
  CHECK(checksum("") == "99aa06d3014798d86001c324468d497f");
  CHECK(checksum("a") == "a96faf705af16834e6c632b61e964e1f");
}

TEST_CASE("a checksum does not depend on how the bytes are cut", "[checkpoint]") {
  const std::string text(100'000, 'x');
  Xxh3 parts;
  for (size_t begin = 0, length = 1; begin < text.size(); begin += length, length = length * 2 + 1) {
    parts.update(std::string_view(text).substr(begin, length));
    parts.update(std::string_view());
  }
  CHECK(parts.hex() == checksum(text));
  CHECK(parts.hex() != checksum(text + "x"));
}

}  // namespace
}  // namespace mgtrain
