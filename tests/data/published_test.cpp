#include "data/published.h"

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("the MD5 of a file is that of RFC 1321's examples, packed or not", "[data]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  for (const auto& [text, sum] : {std::pair{"abc", "900150983cd24fb0d6963f7d28e17f72"},
                                  {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"}}) {
    write_file(file, text);
    CHECK(md5_of(file) == sum);
    write_file(file, gzip(text));
    CHECK(md5_of(file) == sum);
  }
  // More than one piece of 256 KiB, and exactly one; the sums are Python's.
  write_file(file, std::string(600'000, 'x'));
  CHECK(md5_of(file) == "bbef3d09d1fd68cfb48e7ae1acc56a17");
  write_file(file, std::string(262'144, 'x'));
  CHECK(md5_of(file) == "1566aa66d825eb4354d3e9533b753995");
}

TEST_CASE("a file that differs from its published set is a fault, a set of one's own is none", "[data]") {
  const TemporaryFolder folder;
  const std::vector<PublishedSet> sets = {
      {"Letters", {"0cc175b9c0f1b6a831c399e269772661", "92eb5ffee6ae2fec3ad71c777531578f"}}};  // "a", "b"
  const std::vector files = {folder.path() / "one", folder.path() / "two"};
  const auto compare = [&](const std::string& one, const std::string& two, Faults& faults) {
    write_file(files[0], one);
    write_file(files[1], two);
    return compare_with_published(files, faults, sets);
  };
  Faults faults(/*collect=*/true);
  CHECK(compare("a", gzip("b"), faults) == "Letters");
  CHECK(compare("x", "y", faults).empty());
  CHECK(faults.count() == 0);
  CHECK(compare("a", "c", faults) == "Letters");
  REQUIRE(faults.count() == 1);
  CHECK_THAT(faults.list().front(), Contains(files[1].string()) && Contains("4a8a08f09d37b73795649038408b5f33") &&
                                        Contains("Letters's, and this one is not as published"));
}

}  // namespace
}  // namespace mgtrain::test
