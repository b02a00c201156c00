// A strict reader of TensorBoard event files, apart from the writer under test: checks each CRC (bit by bit, not by
// table) and gives the scalars in order.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mgtrain {

struct EventScalar {
  int64_t step = 0;
  double wall_time = 0;
  std::string tag;
  float value = 0;
};

struct EventFileContent {
  std::string file_version;
  std::vector<EventScalar> scalars;

  /// The values of one tag, in file order.
  [[nodiscard]] std::vector<float> values(std::string_view tag) const {
    std::vector<float> found;
    for (const EventScalar& scalar : scalars) {
      if (scalar.tag == tag) found.push_back(scalar.value);
    }
    return found;
  }
};

namespace event_records {

inline uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1u)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
T take(std::string_view& bytes) {
  if (bytes.size() < sizeof(T)) throw std::runtime_error("record cut short");
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

inline std::string_view take_bytes(std::string_view& bytes, uint64_t length) {
  if (bytes.size() < length) throw std::runtime_error("record cut short");
  const std::string_view part = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return part;
}

inline uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("varint too long");
}

inline EventScalar parse_value(std::string_view bytes) {
  EventScalar scalar;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    if (key == 0x0a) {
      scalar.tag = take_bytes(bytes, take_varint(bytes));
    } else if (key == 0x15) {
      scalar.value = take<float>(bytes);
    } else {
      throw std::runtime_error("unexpected field in a summary value");
    }
  }
  return scalar;
}

inline void parse_event(std::string_view bytes, EventFileContent& content) {
  double wall_time = 0;
  int64_t step = 0;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    if (key == 0x09) {
      wall_time = take<double>(bytes);
    } else if (key == 0x10) {
      step = static_cast<int64_t>(take_varint(bytes));
    } else if (key == 0x1a) {
      content.file_version = take_bytes(bytes, take_varint(bytes));
    } else if (key == 0x2a) {
      std::string_view summary = take_bytes(bytes, take_varint(bytes));
      while (!summary.empty()) {
        if (take_varint(summary) != 0x0a) throw std::runtime_error("unexpected field in a summary");
        EventScalar scalar = parse_value(take_bytes(summary, take_varint(summary)));
        scalar.step = step;
        scalar.wall_time = wall_time;
        content.scalars.push_back(std::move(scalar));
      }
    } else {
      throw std::runtime_error("unexpected field in an event");
    }
  }
}

}  // namespace event_records

/// Throws std::runtime_error at the first byte that is not as the format has it.
inline EventFileContent read_event_file(std::string_view file) {
  using namespace event_records;
  EventFileContent content;
  while (!file.empty()) {
    const std::string_view length_bytes = file.substr(0, 8);
    const auto length = take<uint64_t>(file);
    if (take<uint32_t>(file) != masked_crc(length_bytes)) throw std::runtime_error("wrong CRC of a length");
    const std::string_view payload = take_bytes(file, length);
    if (take<uint32_t>(file) != masked_crc(payload)) throw std::runtime_error("wrong CRC of a record");
    parse_event(payload, content);
  }
  return content;
}

}  // namespace mgtrain
