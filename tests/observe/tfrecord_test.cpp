#include "observe/tfrecord.h"

#include "observe/event_records.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

TEST_CASE("CRC-32C gives the known answers of RFC 3720", "[observe]") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c("") == 0);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  CHECK(crc32c(ascending) == 0x46dd794e);
}

TEST_CASE("a masked CRC is the CRC rotated by 15 bits plus the format's constant", "[observe]") {
  const uint32_t crc = 0xe3069283;
  CHECK(masked_crc32c("123456789") == ((crc >> 15 | crc << 17) + 0xa282ead8u));
}

TEST_CASE("a record is length, its CRC, payload, its CRC", "[observe]") {
  const std::string record = tf_record("abc");
  REQUIRE(record.size() == 8 + 4 + 3 + 4);
  CHECK(record.substr(0, 8) == std::string("\3\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 3) == "abc");
  const auto crc_at = [&](size_t offset) {
    uint32_t crc;
    std::memcpy(&crc, record.data() + offset, 4);
    return crc;
  };
  CHECK(crc_at(8) == masked_crc32c(record.substr(0, 8)));
  CHECK(crc_at(15) == masked_crc32c("abc"));
}

TEST_CASE("an event has the bytes of its protocol buffer", "[observe]") {
  // wall_time 1.0; step 300 (two varint bytes); summary { value { tag "a" simple_value 0.5 } }.
  const std::string expected(
      "\x09\0\0\0\0\0\0\xf0\x3f"
      "\x10\xac\x02"
      "\x2a\x0a\x0a\x08\x0a\x01"
      "a"
      "\x15\0\0\0\x3f",
      24);
  const Scalar scalar{"a", 0.5};
  CHECK(scalars_event(1.0, 300, {&scalar, 1}) == expected);
  CHECK(file_version_event(1.0) == std::string("\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                                               "brain.Event:2",
                                               24));
}

TEST_CASE("large steps and many scalars read back", "[observe]") {
  const Scalar scalars[] = {{"one", 1.5}, {"two", -2e30}};
  const std::string file =
      tf_record(file_version_event(3.0)) + tf_record(scalars_event(4.0, int64_t{1} << 40, scalars));
  const EventFileContent content = read_event_file(file);
  CHECK(content.file_version == "brain.Event:2");
  REQUIRE(content.scalars.size() == 2);
  CHECK(content.scalars[0].step == int64_t{1} << 40);
  CHECK(content.scalars[0].wall_time == 4.0);
  CHECK(content.values("two") == std::vector<float>{-2e30f});
}

}  // namespace
}  // namespace mgtrain
