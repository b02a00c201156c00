#include "data/normalise.h"

#include <cstring>

#include "base/random.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

// One operation at a time; volatile keeps the compiler from joining two.
float normalised(uint8_t pixel, float mean, float stddev) {
  volatile float value = static_cast<float>(pixel) / 255.0F;
  value = value - mean;
  return value / stddev;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("rows of any length, either way round, get the bits of plain float32 arithmetic", "[data]") {
  RandomStream random(1, RandomPurpose::kSyntheticImage, 0, 0);
  for (const int64_t channels : {1, 2, 3, 5}) {
    // Ordinary deviations, and one so small that a quotient by its reciprocal overflows.
    for (const float smallest : {0.01F, 0.2F, 1e-38F}) {
      std::vector<float> mean, stddev;
      for (int64_t c = 0; c < channels; ++c) {
        mean.push_back(static_cast<float>(random.uniform()));
        stddev.push_back(smallest * (1.0F + static_cast<float>(random.uniform())));
      }
      const PixelNormaliser normaliser(channels, mean, stddev);
      for (int64_t c = 0; c < channels; ++c)
        CHECK(same_bits(normaliser.black()[c],
                        normalised(0, mean[static_cast<size_t>(c)], stddev[static_cast<size_t>(c)])));
      for (int64_t pixels = 1; pixels <= 70; ++pixels) {
        constexpr int64_t kRows = 2;
        const int64_t row = pixels * channels;
        std::vector<uint8_t> in(static_cast<size_t>(kRows * row));
        for (uint8_t& value : in) value = static_cast<uint8_t>(random.below(256));
        for (const bool flip : {false, true}) {
          std::vector<float> interleaved(in.size() + 1, -7.0F), planar(in.size() + 1, -7.0F);
          normaliser.interleaved({.in = in.data(),
                                  .in_stride = row,
                                  .out = interleaved.data(),
                                  .out_stride = row,
                                  .rows = kRows,
                                  .pixels = pixels,
                                  .flip = flip});
          for (int64_t c = 0; c < channels; ++c)
            normaliser.planar({.in = in.data(),
                               .in_stride = row,
                               .out = planar.data() + c * kRows * pixels,
                               .out_stride = pixels,
                               .rows = kRows,
                               .pixels = pixels,
                               .flip = flip},
                              c);
          bool equal = interleaved.back() == -7.0F && planar.back() == -7.0F;
          for (int64_t y = 0; y < kRows; ++y) {
            for (int64_t x = 0; x < pixels; ++x) {
              for (int64_t c = 0; c < channels; ++c) {
                const int64_t from = y * row + (flip ? pixels - 1 - x : x) * channels + c;
                const float wanted = normalised(in[static_cast<size_t>(from)], mean[static_cast<size_t>(c)],
                                                stddev[static_cast<size_t>(c)]);
                equal = equal && same_bits(interleaved[static_cast<size_t>(y * row + x * channels + c)], wanted) &&
                        same_bits(planar[static_cast<size_t>((c * kRows + y) * pixels + x)], wanted);
              }
            }
          }
          INFO(channels << " channels, " << pixels << " pixels, deviation from " << smallest << ", flip " << flip);
          CHECK(equal);
        }
      }
    }
  }
}

TEST_CASE("without means and deviations a value is the pixel's 255th part", "[data]") {
  std::vector<uint8_t> in(256);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i);
  std::vector<float> out(in.size());
  PixelNormaliser(1, {}, {}).interleaved({.in = in.data(), .out = out.data(), .rows = 1, .pixels = 256});
  for (size_t i = 0; i < in.size(); ++i) CHECK(same_bits(out[i], static_cast<float>(i) / 255.0F));
}

}  // namespace mgtrain::test
