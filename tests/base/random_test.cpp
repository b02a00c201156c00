#include "base/random.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "support/catch.h"

namespace mgtrain {
namespace {

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

// Philox4x32-10 step by step from the paper, for comparison; itself checked against the paper's vectors below.
Counter reference_philox(Counter c, Key k) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      k[0] += 0x9E3779B9;  // golden ratio
      k[1] += 0xBB67AE85;  // sqrt(3) - 1
    }
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1], uint32_t(p0)};
  }
  return c;
}

// The finaliser that turns seed, purpose and epoch into a key. mix(-gamma) = 0.
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
uint64_t mix(uint64_t v) {
  v += kGamma;
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EB;
  return v ^ (v >> 31);
}

Counter next_block(RandomStream& stream) {
  Counter block;
  for (uint32_t& word : block) word = stream.next_u32();
  return block;
}

TEST_CASE("the reference Philox gives the known answers of Random123", "[base]") {
  CHECK(reference_philox({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(reference_philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(reference_philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a stream with an all-zero key and counter gives Philox's known answer", "[base]") {
  const uint64_t seed = 42;
  const uint64_t epoch_of_zero_key =
      mix(mix(seed) ^ static_cast<uint64_t>(RandomPurpose::kAugment)) ^ (uint64_t{0} - kGamma);
  RandomStream stream(seed, RandomPurpose::kAugment, epoch_of_zero_key, 0);
  CHECK(next_block(stream) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("a stream is Philox keyed by seed, purpose and epoch, counting positions under its index", "[base]") {
  const uint64_t index = 0x0123456789abcdef;
  const uint64_t key = mix(mix(mix(7) ^ uint64_t{2}) ^ uint64_t{3});
  RandomStream stream(7, RandomPurpose::kAugment, 3, index);
  for (uint32_t position = 0; position < 5; ++position) {
    CHECK(next_block(stream) == reference_philox({position, 0, 0x89abcdef, 0x01234567},
                                                 {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}));
  }
}

TEST_CASE("equal arguments give equal draws, and any other argument gives other draws", "[base]") {
  const auto first = [](uint64_t seed, RandomPurpose purpose, uint64_t epoch, uint64_t index) {
    RandomStream stream(seed, purpose, epoch, index);
    return next_block(stream);
  };
  CHECK(first(1, RandomPurpose::kAugment, 2, 3) == first(1, RandomPurpose::kAugment, 2, 3));
  std::set<Counter> blocks;
  int num_streams = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const auto purpose : {RandomPurpose::kEpochOrder, RandomPurpose::kAugment, RandomPurpose::kHoldOut}) {
      for (uint64_t epoch = 0; epoch < 8; ++epoch) {
        for (uint64_t index = 0; index < 8; ++index) {
          blocks.insert(first(seed, purpose, epoch, index));
          ++num_streams;
        }
      }
    }
  }
  CHECK(static_cast<int>(blocks.size()) == num_streams);
}

// Bounds below are 5 standard errors of the statistic; draws are fixed, so the tests cannot be flaky.
constexpr int kDraws = 100000;

TEST_CASE("uniform draws lie in [0, 1) with mean 1/2 and variance 1/12", "[base]") {
  RandomStream stream(1, RandomPurpose::kAugment, 0, 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u;
    squares += u * u;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(0.5).margin(5 * std::sqrt(1.0 / 12 / kDraws)));
  CHECK(squares / kDraws - mean * mean == Approx(1.0 / 12).margin(5 * std::sqrt(1.0 / 180 / kDraws)));
}

TEST_CASE("below gives every value of its range equally often", "[base]") {
  for (const uint32_t bound : {1u, 2u, 3u, 10u, 17u}) {
    RandomStream stream(2, RandomPurpose::kEpochOrder, bound, 0);
    std::vector<int> counts(bound);
    for (int i = 0; i < kDraws; ++i) {
      const uint32_t value = stream.below(bound);
      REQUIRE(value < bound);
      ++counts[value];
    }
    const double expected = double(kDraws) / bound;
    double chi_squared = 0;
    for (const int count : counts) chi_squared += (count - expected) * (count - expected) / expected;
    const double freedom = bound - 1;
    CHECK(chi_squared <= freedom + 5 * std::sqrt(2 * freedom));
  }
}

TEST_CASE("below is unbiased where the range does not divide 2^32", "[base]") {
  // With plain multiply-and-shift, a bound of 3 * 2^30 gives every third value twice as often as the others.
  constexpr uint32_t kBound = 3u << 30;
  RandomStream stream(3, RandomPurpose::kEpochOrder, 0, 0);
  std::array<int, 3> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts[stream.below(kBound) % 3];
  for (const int count : counts) CHECK(count == Approx(kDraws / 3.0).margin(5 * std::sqrt(kDraws * 2.0 / 9)));
}

TEST_CASE("normal draws have the moments of the standard normal distribution", "[base]") {
  RandomStream stream(4, RandomPurpose::kInitialWeights, 0, 0);
  std::array<double, 5> moments{};
  for (int i = 0; i < kDraws; ++i) {
    const double z = stream.normal();
    REQUIRE(std::isfinite(z));
    double power = 1;
    for (double& moment : moments) {
      moment += power / kDraws;
      power *= z;
    }
  }
  const double scale = 5 / std::sqrt(double(kDraws));
  CHECK(moments[1] == Approx(0).margin(scale * 1));
  CHECK(moments[2] == Approx(1).margin(scale * std::sqrt(2.0)));
  CHECK(moments[3] == Approx(0).margin(scale * std::sqrt(15.0)));
  CHECK(moments[4] == Approx(3).margin(scale * std::sqrt(96.0)));
}

TEST_CASE("neighbouring streams are uncorrelated", "[base]") {
  struct Neighbour {
    uint64_t seed, epoch, index;
    RandomPurpose purpose;
  };
  const Neighbour neighbours[] = {{6, 0, 0, RandomPurpose::kAugment},
                                  {5, 1, 0, RandomPurpose::kAugment},
                                  {5, 0, 1, RandomPurpose::kAugment},
                                  {5, 0, 0, RandomPurpose::kEpochOrder}};
  for (const Neighbour& n : neighbours) {
    RandomStream a(5, RandomPurpose::kAugment, 0, 0), b(n.seed, n.purpose, n.epoch, n.index);
    double covariance = 0;
    for (int i = 0; i < kDraws; ++i) covariance += (a.uniform() - 0.5) * (b.uniform() - 0.5) / kDraws;
    CHECK(covariance * 12 == Approx(0).margin(5 / std::sqrt(double(kDraws))));
  }
}

TEST_CASE("the first draws of successive indices are spread evenly", "[base]") {
  // What augmentation uses: one stream a sample. 16 buckets, one draw from each of many streams.
  std::array<int, 16> counts{};
  for (uint64_t index = 0; index < kDraws; ++index) {
    ++counts[RandomStream(0, RandomPurpose::kAugment, 0, index).below(16)];
  }
  const double expected = kDraws / 16.0;
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  CHECK(chi_squared <= 15 + 5 * std::sqrt(30.0));
}

}  // namespace
}  // namespace mgtrain
