#include "observe/tfrecord.h"

#include <array>
#include <bit>

namespace mgtrain {
namespace {

constexpr std::array<uint32_t, 256> make_crc32c_table() {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrc32cTable = make_crc32c_table();

void append_little_endian(std::string& out, uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// Protocol buffers: a field is its key (number << 3 | wire type) and its value.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, WireType type) { append_varint(out, field << 3 | type); }

void append_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  append_key(out, field, kLengthDelimited);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_double(std::string& out, uint32_t field, double value) {
  append_key(out, field, kFixed64);
  append_little_endian(out, std::bit_cast<uint64_t>(value), 8);
}

void append_float(std::string& out, uint32_t field, float value) {
  append_key(out, field, kFixed32);
  append_little_endian(out, std::bit_cast<uint32_t>(value), 4);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kCrc32cTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8; }

std::string tf_record(std::string_view payload) {
  std::string record;
  record.reserve(payload.size() + 16);
  append_little_endian(record, payload.size(), 8);
  append_little_endian(record, masked_crc32c(record), 4);
  record += payload;
  append_little_endian(record, masked_crc32c(payload), 4);
  return record;
}

std::string file_version_event(double wall_time) {
  std::string event;
  append_double(event, 1, wall_time);
  append_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_float(value, 2, static_cast<float>(scalar.value));
    append_bytes(summary, 1, value);
  }
  std::string event;
  append_double(event, 1, wall_time);
  append_key(event, 2, kVarint);
  append_varint(event, static_cast<uint64_t>(step));
  append_bytes(event, 5, summary);
  return event;
}

}  // namespace mgtrain
