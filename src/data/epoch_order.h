// The order of samples in an epoch: a permutation that is a function of (seed, epoch) alone.
#pragma once

#include <cstdint>
#include <vector>

namespace mgtrain {

/// A Fisher-Yates permutation of 0..count-1 drawn from (seed, RandomPurpose::kEpochOrder, epoch).
std::vector<int64_t> epoch_order(uint64_t seed, int64_t epoch, int64_t count);

/// How `count` samples are cut into `parts`: sizes differ by at most one, larger first (10 in 4: 3, 3, 2, 2).
std::vector<int64_t> even_shares(int64_t count, int64_t parts);

/// Where part `rank` of these lies.
struct ShareOfRank {
  int64_t first = 0, count = 0;
};
ShareOfRank share_of_rank(int64_t count, int64_t rank, int64_t ranks);

}  // namespace mgtrain
