// datapythonista/mnist#19, #17: an empty or cut file gives an EOF trace.
#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

/// The small set with these bytes as its training images: the refusal, which is one line and names the file.
std::string refused(const std::string& bytes) {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  write_file(folder.path() / "train-images-idx3-ubyte", bytes);
  const std::string message = refusal_of(data_at(folder.path()));
  CHECK_THAT(message, Contains((folder.path() / "train-images-idx3-ubyte").string()));
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

std::string whole() { return idx_bytes({4, 2, 3}, ramp(24)); }

}  // namespace

TEST_CASE("FMT 38: a file of no bytes, or of a header only, is refused with sizes", "[issues]") {
  CHECK_THAT(refused(""), Contains("is empty (0 bytes)"));
  CHECK_THAT(refused(whole().substr(0, 16)), Contains("16 bytes") && Contains("makes 40"));
  CHECK_THAT(refused(whole().substr(0, 9)), Contains("9 bytes, less than the 16 of an IDX header"));
  CHECK_THAT(refused(gzip("")), Contains("0 bytes, less than the 16 of an IDX header"));
  CHECK_THAT(refused(gzip(whole().substr(0, 16))), Contains("makes 24 bytes of pixels, and there are 0"));
}

TEST_CASE("FMT 38: gzip cut at half, of a wrong checksum, or followed by more is refused", "[issues]") {
  const std::string packed = gzip(whole());
  CHECK_THAT(refused(packed.substr(0, packed.size() / 2)), Contains("the gzip data end too early after"));
  std::string checksum = packed;
  checksum[packed.size() - 8] ^= 1;
  CHECK_THAT(refused(checksum), Contains("damaged (incorrect data check)"));
  CHECK_THAT(refused(packed + "more"), Contains("other bytes behind the gzip data after 40 uncompressed bytes"));
  CHECK_THAT(refused(packed + packed), Contains("makes 24 bytes of pixels, and there are at least 64"));
}

TEST_CASE("FMT 38: two gzip members that make one whole file together are that file", "[issues]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  const std::string fingerprint = load(data_at(folder.path())).fingerprint;
  write_file(folder.path() / "train-images-idx3-ubyte", gzip(whole().substr(0, 23)) + gzip(whole().substr(23)));
  CHECK(load(data_at(folder.path())).fingerprint == fingerprint);
}

}  // namespace mgtrain::test
