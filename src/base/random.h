// Counter-based random numbers: a draw is a pure function of (seed, purpose, epoch, index, position), so worker
// count, prefetch depth and resume cannot change it. Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC 2011). A stream is a small value: make one where it is needed, share none between threads.
#pragma once

#include <array>
#include <cstdint>

namespace mgtrain {

/// What a stream is drawn for. Values are part of the run's numerics: append, never renumber.
enum class RandomPurpose : uint32_t {
  kEpochOrder = 1,
  kAugment = 2,
  kSyntheticImage = 3,
  kSyntheticLabel = 4,
  kHoldOut = 5,
  kInitialWeights = 6,
};

class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t epoch, uint64_t index);

  /// 32 uniformly distributed bits.
  uint32_t next_u32() {
    if (used_ == 4) refill();
    return block_[used_++];
  }
  /// Uniform in [0, 1) with 32 bits.
  double uniform() { return next_u32() * (1.0 / 4294967296.0); }
  /// Uniform integer in [0, bound), bound in [1, 2^32); unbiased (Lemire's rejection).
  uint32_t below(uint32_t bound);
  /// One standard normal draw (Box-Muller).
  double normal();

 private:
  void refill();

  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace mgtrain
