#include "plan/batch_split.h"

#include <algorithm>

#include "data/epoch_order.h"

namespace mgtrain {

std::vector<int64_t> split_batch(int64_t count, int64_t num_devices, int64_t pieces) {
  if (count <= 0) return {};
  // A row is one sample a device. The samples that fill no row join the last, shortest piece.
  const int64_t rows = count / num_devices;
  std::vector<int64_t> sizes;
  for (const int64_t share : even_shares(rows, std::clamp<int64_t>(pieces, 1, std::max<int64_t>(rows, 1)))) {
    sizes.push_back(share * num_devices);
  }
  sizes.back() += count % num_devices;
  return sizes;
}

int64_t pieces_of(int64_t count, int64_t full, int64_t pieces) {
  if (count >= full) return pieces;
  // In double: count * pieces may pass 2^63 for absurd settings, and a piece more or less changes no result then.
  const double exact = static_cast<double>(count) / static_cast<double>(full) * static_cast<double>(pieces);
  const auto whole = static_cast<int64_t>(exact);
  return std::max<int64_t>(1, whole + (exact > static_cast<double>(whole) ? 1 : 0));
}

}  // namespace mgtrain
