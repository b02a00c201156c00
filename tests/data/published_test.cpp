#include "data/published.h"

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

std::string md5_in_pieces(const std::string& text, size_t piece) {
  Md5 md5;
  const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  for (size_t i = 0; i < bytes.size(); i += piece) md5.update(bytes.subspan(i, std::min(piece, bytes.size() - i)));
  return md5.finish();
}

TEST_CASE("MD5 gives the values of RFC 1321, whatever pieces its input comes in", "[data]") {
  for (const size_t piece : {1, 7, 64, 1000}) {
    CHECK(md5_in_pieces("", piece) == "d41d8cd98f00b204e9800998ecf8427e");
    CHECK(md5_in_pieces("abc", piece) == "900150983cd24fb0d6963f7d28e17f72");
    CHECK(md5_in_pieces("abcdefghijklmnopqrstuvwxyz", piece) == "c3fcd3d76192e4007dfb496cca67e13b");
    CHECK(md5_in_pieces("12345678901234567890123456789012345678901234567890123456789012345678901234567890", piece) ==
          "57edf4a22be3c955ac49da2e2107b67a");
  }
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
