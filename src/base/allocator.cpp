#include "base/allocator.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mgtrain {

void tune_allocator() {
#ifdef __GLIBC__
  // Blocks below the first threshold come from the heap, not from mappings of their own, which end with the block. 32
  // MiB is the most that glibc takes; without it said, setting the other would fix it at 128 KiB.
  constexpr int kLargestThreshold = 32 * 1024 * 1024;
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, -1);  // never
#endif
}

}  // namespace mgtrain
