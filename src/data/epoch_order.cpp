#include "data/epoch_order.h"

#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/random.h"

namespace mgtrain {

std::vector<int64_t> epoch_order(uint64_t seed, int64_t epoch, int64_t count) {
  if (count < 0 || count > int64_t{std::numeric_limits<uint32_t>::max()}) {
    throw std::logic_error("no order of " + std::to_string(count) + " samples");
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  RandomStream random(seed, RandomPurpose::kEpochOrder, static_cast<uint64_t>(epoch), 0);
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
  }
  return order;
}

std::vector<int64_t> even_shares(int64_t count, int64_t parts) {
  if (count < 0 || parts < 1) {
    throw std::logic_error("cannot cut " + std::to_string(count) + " samples in " + std::to_string(parts) + " parts");
  }
  std::vector<int64_t> shares(static_cast<size_t>(parts), count / parts);
  for (size_t i = 0; i < static_cast<size_t>(count % parts); ++i) ++shares[i];
  return shares;
}

ShareOfRank share_of_rank(int64_t count, int64_t rank, int64_t ranks) {
  const std::vector<int64_t> shares = even_shares(count, ranks);
  ShareOfRank share{.count = shares.at(static_cast<size_t>(rank))};
  for (int64_t before = 0; before < rank; ++before) share.first += shares[static_cast<size_t>(before)];
  return share;
}

}  // namespace mgtrain
