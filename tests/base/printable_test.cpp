#include "base/printable.h"

#include "support/catch.h"

using mgtrain::printable;

TEST_CASE("a text without control characters stays as it is", "[base]") {
  CHECK(printable("") == "");
  CHECK(printable("layer1.0.weight \xc3\xa9 \xe2\x82\xac \\x1b") == "layer1.0.weight \xc3\xa9 \xe2\x82\xac \\x1b");
}

TEST_CASE("control characters, old and Unicode's, are spelled out", "[base]") {
  CHECK(printable("\x1b[31mred\n") == "\\x1b[31mred\\x0a");
  CHECK(printable(std::string("a\0\x7f", 3)) == "a\\x00\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\x9b2J");
  CHECK(printable("\xc2\xa0\xc2") == "\xc2\xa0\xc2");
}
