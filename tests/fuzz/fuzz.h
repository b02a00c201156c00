// What the fuzz targets share. A target is LLVMFuzzerTestOneInput in a file of its own: it gives the bytes to a parser,
// reads every byte that comes out, and lets only the errors pass that the parser promises. Any thread; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace mgtrain::fuzz {

/// Reads every byte, so that a sanitizer sees one that does not belong to us.
inline void touch(std::span<const std::byte> bytes) {
  volatile uint8_t sum = 0;
  for (const std::byte byte : bytes) sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(byte));
}
inline void touch(std::string_view text) { touch(std::as_bytes(std::span(text))); }
inline void touch(std::span<const uint8_t> bytes) { touch(std::as_bytes(bytes)); }
template <typename T>
requires std::is_arithmetic_v<T>
void touch(T number) { touch(std::as_bytes(std::span(&number, 1))); }
template <typename List>
requires requires(const List& list) {
  list.begin();
  list.front().size();
}
void touch(const List& list) {
  for (const auto& item : list) touch(item);
}

/// What must hold whatever the bytes were; a failure is a finding.
inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline std::string text_of(const uint8_t* data, size_t size) {
  return size == 0 ? std::string() : std::string(reinterpret_cast<const char*>(data), size);
}

}  // namespace mgtrain::fuzz
