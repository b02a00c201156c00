#include "observe/number_text.h"

#include <cmath>
#include <limits>

#include "support/catch.h"

namespace mgtrain {
namespace {

TEST_CASE("numbers are written with a point and the digits asked for", "[observe]") {
  CHECK(fixed_text(0.5, 4) == "0.5000");
  CHECK(fixed_text(1234.5678, 0) == "1235");
  CHECK(fixed_text(-0.25, 2) == "-0.25");
  CHECK(short_text(0.1) == "0.1");
  CHECK(short_text(1e-5) == "1e-05");
  CHECK(short_text(0.0499877123) == "0.0499877");
  CHECK(fixed_text(std::numeric_limits<double>::max(), 2).size() == 312);
}

TEST_CASE("what is not finite is written as nan, inf, -inf", "[observe]") {
  CHECK(fixed_text(std::nan(""), 4) == "nan");
  CHECK(fixed_text(-std::nan(""), 4) == "nan");
  CHECK(fixed_text(INFINITY, 4) == "inf");
  CHECK(short_text(-INFINITY) == "-inf");
}

TEST_CASE("durations read as a person says them", "[observe]") {
  CHECK(duration_text(0) == "0s");
  CHECK(duration_text(59.4) == "59s");
  CHECK(duration_text(59.6) == "1m00s");
  CHECK(duration_text(83) == "1m23s");
  CHECK(duration_text(7620) == "2h07m");
  CHECK(duration_text(std::nan("")) == "-");
  CHECK(duration_text(-1) == "-");
}

TEST_CASE("byte counts carry a unit", "[observe]") {
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1000) == "1.0 kB");
  CHECK(bytes_text(999950) == "1.0 MB");
  CHECK(bytes_text(12345678901) == "12.3 GB");
}

TEST_CASE("a value that would break a key=value line becomes a JSON string", "[observe]") {
  CHECK(value_text("SIGTERM") == "SIGTERM");
  CHECK(value_text("time limit") == R"("time limit")");
  CHECK(value_text("") == R"("")");
  CHECK(value_text("a\nb\"c") == R"("a\nb\"c")");
  CHECK(value_text("\xff x") == "\"\xEF\xBF\xBD x\"");  // not UTF-8: the replacement character
}

}  // namespace
}  // namespace mgtrain
