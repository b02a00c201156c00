// How much memory a test program holds in C++'s allocations, and how many it made. For programs that link
// counted_memory.cpp, which replaces operator new. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgtrain::test {

/// Watches from its construction on. One at a time.
class CountedMemory {
 public:
  CountedMemory();
  /// Most bytes held at a time since then, beyond those held then.
  [[nodiscard]] uint64_t peak_bytes() const;
  /// Allocations since then: a measure of work that no clock blurs.
  [[nodiscard]] uint64_t allocations() const;

 private:
  uint64_t bytes_before_, allocations_before_;
};

}  // namespace mgtrain::test
