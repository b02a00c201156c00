// How a batch is cut in time (micro-batches) and space (devices).
#pragma once

#include <cstdint>
#include <vector>

namespace mgtrain {

/// Sizes of at most `pieces` micro-batches of `count` samples, none empty. All but the last piece that takes the
/// remainder are multiples of `num_devices`, so that even_shares of each gives every device the same number of samples
/// of the whole batch, up to one.
std::vector<int64_t> split_batch(int64_t count, int64_t num_devices, int64_t pieces);

/// The pieces a batch of `count` runs in if a full one of `full` samples runs in `pieces`.
int64_t pieces_of(int64_t count, int64_t full, int64_t pieces);

}  // namespace mgtrain
