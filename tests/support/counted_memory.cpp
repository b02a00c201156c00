#include "support/counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> held{0}, peak{0}, allocations{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  ++allocations;
  const uint64_t now = held += malloc_usable_size(memory);
  for (uint64_t before = peak; before < now && !peak.compare_exchange_weak(before, now);) {
  }
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// The other forms of the standard library call these.
void* operator new(size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }
// By themselves these would not call ours under AddressSanitizer, which brings its own.
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }

namespace mgtrain::test {

CountedMemory::CountedMemory() : bytes_before_(held), allocations_before_(::allocations) { peak = bytes_before_; }

uint64_t CountedMemory::peak_bytes() const { return peak - bytes_before_; }
uint64_t CountedMemory::allocations() const { return ::allocations - allocations_before_; }

}  // namespace mgtrain::test
