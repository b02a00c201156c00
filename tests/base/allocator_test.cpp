#include "base/allocator.h"

#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "support/catch.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// What a step does: some tensors of 16 MiB, written to, all freed at its end.
void use_and_free_memory() {
  constexpr size_t kBytes = size_t{16} << 20;
  std::vector<void*> blocks;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(std::malloc(kBytes));
    REQUIRE(blocks.back() != nullptr);
    std::memset(blocks.back(), i, kBytes);
  }
  for (void* block : blocks) std::free(block);
}

}  // namespace

TEST_CASE("memory that a step has freed serves the next one without page faults", "[base]") {
  mgtrain::tune_allocator();
  use_and_free_memory();
  const int64_t before = page_faults();
  for (int i = 0; i < 3; ++i) use_and_free_memory();
  // Anew it would be 24,576 pages a time.
  CHECK(page_faults() - before < 1000);
}

#endif
