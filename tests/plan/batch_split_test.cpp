#include "plan/batch_split.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "data/epoch_order.h"
#include "support/catch.h"

using namespace mgtrain;
using Sizes = std::vector<int64_t>;

TEST_CASE("micro-batches are even over the devices; what fills no row joins the last", "[plan]") {
  CHECK(split_batch(256, 2, 1) == Sizes{256});
  CHECK(split_batch(256, 2, 4) == Sizes{64, 64, 64, 64});
  CHECK(split_batch(10, 2, 4) == Sizes{4, 2, 2, 2});
  CHECK(split_batch(13, 2, 2) == Sizes{6, 7});
  CHECK(split_batch(10, 1, 4) == Sizes{3, 3, 2, 2});
  CHECK(split_batch(3, 4, 1) == Sizes{3});
  CHECK(split_batch(3, 4, 2) == Sizes{3});
  CHECK(split_batch(5, 4, 2) == Sizes{5});
  CHECK(split_batch(1, 1, 8) == Sizes{1});
  CHECK(split_batch(0, 2, 2).empty());
}

TEST_CASE("however a batch is split, nothing is lost and devices differ by at most one sample", "[plan]") {
  for (int64_t count = 1; count <= 40; ++count) {
    for (int64_t devices = 1; devices <= 5; ++devices) {
      for (int64_t pieces = 1; pieces <= 7; ++pieces) {
        INFO(count << " samples on " << devices << " devices in " << pieces);
        const Sizes sizes = split_batch(count, devices, pieces);
        Sizes per_device(static_cast<size_t>(devices), 0);
        for (const int64_t size : sizes) {
          REQUIRE(size > 0);
          const Sizes chunks = even_shares(size, devices);
          for (size_t d = 0; d < chunks.size(); ++d) per_device[d] += chunks[d];
        }
        REQUIRE(static_cast<int64_t>(sizes.size()) <= pieces);
        REQUIRE(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == count);
        REQUIRE(per_device == even_shares(count, devices));
      }
    }
  }
}

TEST_CASE("a short batch runs in as many pieces as its size needs", "[plan]") {
  CHECK(pieces_of(128, 128, 4) == 4);
  CHECK(pieces_of(33, 128, 4) == 2);
  CHECK(pieces_of(32, 128, 4) == 1);
  CHECK(pieces_of(1, 128, 4) == 1);
  CHECK(pieces_of(97, 128, 4) == 4);
  CHECK(pieces_of(5, 128, 1) == 1);
}
