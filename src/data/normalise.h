// From pixel values to normalised floats: ((x / 255) - mean) / stddev in float32, every operation rounded, as
// torchvision's ToTensor and Normalize compute; 256 values a channel, so a table holds them all. Where the processor
// has AVX2 and FMA the same bits are computed instead of looked up, which is faster. Immutable; any thread. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mgtrain {

/// Rows of pixels and where they go; strides in elements.
struct PixelRows {
  const uint8_t* in = nullptr;
  int64_t in_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0, pixels = 0;  // of each row
  bool flip = false;             // last pixel first
};

class PixelNormaliser {
 public:
  /// mean and stddev: one a channel, or both empty (x / 255 alone).
  PixelNormaliser(int64_t channels, std::span<const float> mean, std::span<const float> stddev);

  /// The normalised values of 0, one a channel.
  [[nodiscard]] const float* black() const { return black_.data(); }
  /// All channels of each pixel, side by side.
  void interleaved(const PixelRows& rows) const;
  /// One channel of pixels whose channels lie side by side.
  void planar(const PixelRows& rows, int64_t channel) const;

 private:
  static constexpr int64_t kValues = 256;
  static constexpr int64_t kBlock = 24;  // elements computed at a time: whole pixels of 1 or 3 channels, whole vectors

  template <int kChannels>
  void look_up(const PixelRows& rows) const;
  template <bool kFlip>
  void compute(const PixelRows& rows) const;
  [[nodiscard]] bool computes_the_table() const;

  int64_t channels_;
  std::vector<float> table_;  // [channels, 256]
  std::vector<float> black_;
  // For a block of elements in turn; empty where this way is not open.
  std::vector<float> mean_, stddev_, inverse_;
};

}  // namespace mgtrain
