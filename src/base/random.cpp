#include "base/random.h"

#include <cmath>
#include <numbers>

namespace mgtrain {
namespace {

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Mixes the seed and the purpose into a key (the finaliser of SplitMix64), so that near seeds give far keys.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t epoch, uint64_t index) {
  const uint64_t key = mix(mix(mix(seed) ^ static_cast<uint64_t>(purpose)) ^ epoch);
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  counter_ = {0, 0, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)};
}

void RandomStream::refill() {
  block_ = philox4x32_10(counter_, key_);
  if (++counter_[0] == 0) ++counter_[1];
  used_ = 0;
}

uint32_t RandomStream::below(uint32_t bound) {
  uint64_t product = uint64_t{next_u32()} * bound;
  if (static_cast<uint32_t>(product) < bound) {
    const uint32_t threshold = (0u - bound) % bound;
    while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next_u32()} * bound;
  }
  return static_cast<uint32_t>(product >> 32);
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log((next_u32() + 1.0) / 4294967296.0));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace mgtrain
