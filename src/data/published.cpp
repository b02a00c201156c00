#include "data/published.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "data/data_file.h"

namespace mgtrain {
namespace {

std::string md5_of(const std::filesystem::path& path) {
  DataFile file(path);
  Md5 md5;
  std::vector<uint8_t> chunk(size_t{1} << 18);
  for (;;) {
    const size_t got = file.read(chunk);
    md5.update(std::span(chunk).first(got));
    if (got < chunk.size()) return md5.finish();
  }
}

uint32_t sine_constant(int i) { return static_cast<uint32_t>(std::floor(std::abs(std::sin(i + 1.0)) * 4294967296.0)); }

}  // namespace

void Md5::block(const uint8_t* bytes) {
  static const std::array<uint32_t, 64> constants = [] {
    std::array<uint32_t, 64> table{};
    for (int i = 0; i < 64; ++i) table[static_cast<size_t>(i)] = sine_constant(i);
    return table;
  }();
  constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t words[16];
  std::memcpy(words, bytes, sizeof words);  // little-endian, as MD5 wants it
  uint32_t a = state_[0], b = state_[1], c = state_[2], d = state_[3];
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t mix = 0, word = 0;
    switch (i / 16) {
      case 0:
        mix = (b & c) | (~b & d);
        word = i;
        break;
      case 1:
        mix = (b & d) | (c & ~d);
        word = (5 * i + 1) % 16;
        break;
      case 2:
        mix = b ^ c ^ d;
        word = (3 * i + 5) % 16;
        break;
      default:
        mix = c ^ (b | ~d);
        word = (7 * i) % 16;
    }
    const uint32_t next = b + std::rotl(a + mix + constants[i] + words[word], kShifts[i / 16][i % 4]);
    a = d;
    d = c;
    c = b;
    b = next;
  }
  state_[0] += a;
  state_[1] += b;
  state_[2] += c;
  state_[3] += d;
}

void Md5::update(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t filled = length_ % 64, taken = std::min(bytes.size(), 64 - filled);
    std::memcpy(buffer_ + filled, bytes.data(), taken);
    length_ += taken;
    bytes = bytes.subspan(taken);
    if (filled + taken == 64) block(buffer_);
  }
}

std::string Md5::finish() {
  const uint64_t bits = length_ * 8;
  constexpr std::array<uint8_t, 64> kPadding = {0x80};
  const size_t filled = length_ % 64;
  update(std::span(kPadding).first(filled < 56 ? 56 - filled : 120 - filled));
  std::array<uint8_t, 8> length{};
  std::memcpy(length.data(), &bits, sizeof bits);
  update(length);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint32_t word : state_) {
    for (int byte = 0; byte < 4; ++byte) {
      const uint32_t value = word >> (8 * byte) & 0xff;
      text += kDigits[value >> 4];
      text += kDigits[value & 15];
    }
  }
  return text;
}

const std::vector<PublishedSet>& published_sets() {
  // Training images and labels, test images and labels.
  static const std::vector<PublishedSet> sets = {
      {"MNIST",
       {"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624", "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637"}},
      {"Fashion-MNIST",
       {"f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9", "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965"}}};
  return sets;
}

std::string compare_with_published(const std::vector<std::filesystem::path>& files, Faults& faults,
                                   const std::vector<PublishedSet>& sets) {
  std::vector<std::string> sums;
  sums.reserve(files.size());
  for (const auto& file : files) sums.push_back(md5_of(file));
  for (const PublishedSet& set : sets) {
    const auto known = [&](const std::string& sum) { return std::ranges::find(set.md5, sum) != set.md5.end(); };
    const auto num_known = static_cast<size_t>(std::ranges::count_if(sums, known));
    if (2 * num_known < sums.size() || num_known == 0) continue;
    for (size_t i = 0; i < files.size(); ++i) {
      if (known(sums[i])) continue;
      faults.add(files[i].string() + ": MD5 " + sums[i] + " (unpacked); the files beside it are " + set.name +
                 "'s, and this one is not as published: damaged, or altered");
    }
    return set.name;
  }
  return "";
}

}  // namespace mgtrain
