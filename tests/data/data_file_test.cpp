#include "data/data_file.h"

#include <sys/stat.h>

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

std::string text_in(DataFile& file, uint64_t most = 1 << 20) {
  const std::vector<uint8_t> bytes = file.read_up_to(most);
  return {bytes.begin(), bytes.end()};
}

/// What reading a file of these bytes to its end gives or is refused with.
std::string read_all(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file(folder.path() / "file", bytes);
  DataFile file(folder.path() / "file");
  return text_in(file);
}
std::string refused(const std::string& bytes) {
  return data_error([&] { read_all(bytes); });
}

TEST_CASE("a file is read as it was before its compression, whatever its name says", "[data]") {
  const TemporaryFolder folder;
  const std::string text = ramp(1'000'000, 3, 7);
  write_file(folder.path() / "packed", gzip(text));
  write_file(folder.path() / "raw.gz", text);
  DataFile packed(folder.path() / "packed"), raw(folder.path() / "raw.gz");
  CHECK(packed.compressed());
  CHECK_FALSE(raw.compressed());
  CHECK(text_in(packed) == text);
  CHECK(text_in(raw) == text);
  CHECK(raw.most_bytes() == text.size());
  CHECK(packed.most_bytes() >= text.size());
  CHECK(packed.count_rest(1 << 20) == 0);
}

TEST_CASE("a part of a file is read and the rest counted", "[data]") {
  const TemporaryFolder folder;
  for (const std::string& bytes : {gzip("0123456789"), std::string("0123456789")}) {
    write_file(folder.path() / "file", bytes);
    DataFile file(folder.path() / "file");
    CHECK(text_in(file, 4) == "0123");
    CHECK(file.count_rest(1 << 20) == 6);
  }
}

TEST_CASE("members of gzip follow each other", "[data]") {
  CHECK(read_all(gzip("abc") + gzip("") + gzip("def")) == "abcdef");
  CHECK(read_all(gzip("")).empty());
}

TEST_CASE("gzip data that are cut at any byte are refused", "[data]") {
  const std::string whole = gzip(ramp(500, 0, 3));
  for (size_t length = 2; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_THAT(refused(whole.substr(0, length)), Contains("the gzip data end too early after"));
  }
  CHECK_THAT(refused(gzip("abc") + gzip("def").substr(0, 9)), Contains("end too early after 3 uncompressed bytes"));
}

TEST_CASE("damaged gzip data, a wrong checksum and bytes behind them are refused", "[data]") {
  std::string checksum = gzip("some text"), length = checksum, body = checksum;
  checksum[checksum.size() - 5] ^= 1;
  CHECK_THAT(refused(checksum), Contains("damaged (incorrect data check)"));
  length[length.size() - 1] ^= 1;
  CHECK_THAT(refused(length), Contains("damaged (incorrect length check)"));
  body[10] = static_cast<char>(0xff);
  CHECK_THAT(refused(body), Contains("the gzip data are damaged"));
  CHECK_THAT(refused(gzip("some text") + "x"), Contains("other bytes behind the gzip data after 9 uncompressed"));
  CHECK_THAT(refused(gzip("some text") + std::string(512, '\0')), Contains("other bytes behind the gzip data"));
  CHECK_THAT(refused(gzip("some text") + "\x1f and more"), Contains("damaged (incorrect header check)"));
}

TEST_CASE("what is no file with bytes in it is refused by name", "[data]") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name) {
    const std::string message = data_error([&] { DataFile file(folder.path() / name); });
    CHECK_THAT(message, Contains((folder.path() / name).string()));
    return message;
  };
  write_file(folder.path() / "empty", "");
  CHECK_THAT(refusal("missing"), Contains("No such file"));
  CHECK_THAT(refusal("empty"), Contains("is empty (0 bytes)"));
  CHECK_THAT(refusal("."), Contains("is a folder"));
  // Without a writer: opening it must not wait.
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal("pipe"), Contains("is a pipe or a device"));
}

TEST_CASE("a file of another kind is guessed from its beginning", "[data]") {
  const auto guess = [](const std::string& text) {
    return guess_foreign(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  };
  CHECK_THAT(guess("version https://git-lfs.github.com/spec/v1\n"), Contains("git lfs pull"));
  CHECK_THAT(guess("<!DOCTYPE html>"), Contains("web page"));
  CHECK_THAT(guess("<HTML><head>"), Contains("web page"));
  CHECK_THAT(guess("PK\3\4..."), Contains("zip archive"));
  CHECK_THAT(guess(std::string(257, 'x') + "ustar" + std::string(100, ' ')), Contains("tar archive"));
  CHECK(guess("").empty());
  CHECK(guess("<").empty());
  CHECK(guess(ramp(512)).empty());
}

}  // namespace
}  // namespace mgtrain::test
