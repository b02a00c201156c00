#include "data/epoch_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "support/catch.h"

namespace mgtrain {
namespace {

TEST_CASE("an epoch's order holds every sample once", "[data]") {
  for (const int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<int64_t> order = epoch_order(7, 3, count), all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), int64_t{0});
    CHECK(std::ranges::is_permutation(order, all));
  }
}

TEST_CASE("an epoch's order is a function of seed and epoch", "[data]") {
  CHECK(epoch_order(7, 3, 500) == epoch_order(7, 3, 500));
  CHECK(epoch_order(7, 3, 500) != epoch_order(7, 4, 500));
  CHECK(epoch_order(7, 3, 500) != epoch_order(8, 3, 500));
}

TEST_CASE("every order of four samples is drawn as often as any other", "[data]") {
  std::vector<int> counts(4 * 4 * 4 * 4, 0);
  constexpr int kDraws = 24'000;
  for (int epoch = 0; epoch < kDraws; ++epoch) {
    size_t code = 0;
    for (const int64_t sample : epoch_order(1, epoch, 4)) code = 4 * code + static_cast<size_t>(sample);
    ++counts[code];
  }
  CHECK(std::ranges::count_if(counts, [](int count) { return count > 0; }) == 24);
  double chi_squared = 0;
  for (const int count : counts) {
    if (count > 0) chi_squared += std::pow(count - kDraws / 24.0, 2) / (kDraws / 24.0);
  }
  CHECK(chi_squared < 49.7);  // 23 degrees of freedom, p = 0.001; the draws are always the same
}

TEST_CASE("a rank's share lies behind those of the ranks before it", "[data]") {
  int64_t next = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const ShareOfRank share = share_of_rank(10, rank, 4);
    CHECK(share.first == next);
    next += share.count;
  }
  CHECK(next == 10);
  CHECK(share_of_rank(3, 3, 4).count == 0);
  CHECK_THROWS(share_of_rank(3, 4, 4));
}

TEST_CASE("shares differ by at most one, the larger first", "[data]") {
  CHECK(even_shares(10, 4) == std::vector<int64_t>{3, 3, 2, 2});
  CHECK(even_shares(3, 4) == std::vector<int64_t>{1, 1, 1, 0});
  CHECK(even_shares(0, 2) == std::vector<int64_t>{0, 0});
  CHECK(even_shares(8, 1) == std::vector<int64_t>{8});
  CHECK_THROWS_AS(even_shares(8, 0), std::logic_error);
  CHECK_THROWS_AS(even_shares(-1, 2), std::logic_error);
}

}  // namespace
}  // namespace mgtrain
