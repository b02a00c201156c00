#include "base/clock.h"

#include "support/catch.h"
#include "support/text_pattern.h"

namespace mgtrain {
namespace {

TEST_CASE("compact UTC times sort as text and hold only what file names may", "[base]") {
  CHECK(compact_utc(0) == "19700101T000000Z");
  CHECK(compact_utc(1709209845.9) == "20240229T123045Z");  // a leap day; fractions are cut
  CHECK(compact_utc(4102444799) == "20991231T235959Z");    // beyond 2^31 seconds
}

TEST_CASE("the system's clock goes forward and knows the year", "[base]") {
  const SystemClock clock;
  const double first = clock.monotonic_seconds();
  for (int i = 0; i < 1000; ++i) REQUIRE(clock.monotonic_seconds() >= first);
  CHECK(clock.unix_seconds() > 1.7e9);
  CHECK(fits(compact_utc(clock.unix_seconds()), "20######T######Z"));
}

}  // namespace
}  // namespace mgtrain
