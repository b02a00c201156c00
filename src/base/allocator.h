// The C library's allocator, set up for training on the CPU. Process-wide: main() calls it before anything else.
#pragma once

namespace mgtrain {

/// Keeps freed memory for the next step. A step's tensors are freed at its end; glibc would give their pages back to
/// the system, and the next step would fault every one in again (measured in docs/train-step.md). The process holds on
/// to its peak. Does nothing with other C libraries.
void tune_allocator();

}  // namespace mgtrain
