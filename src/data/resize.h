// Bilinear resize of HWC uint8 images with antialiasing: a triangle filter of support max(1, scale) about each
// output pixel's centre, columns first, then rows, each pass rounded to uint8; weights in fixed point with 22
// fractional bits. Pillow's arithmetic (Image.resize with BILINEAR), and so its bits; where a width that grows or
// shrinks less than the height makes Pillow take rows first, results differ by at most 1. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image_set.h"

namespace mgtrain {

/// Room for a resize, kept between calls by the thread that resizes.
struct ResizeScratch {
  std::vector<uint8_t> taps;    // one row's pixels by tap
  std::vector<uint8_t> rows;    // after the pass over columns
  std::vector<uint8_t> result;  // for a caller that needs the resized image for a moment
};

/// The weights of a resize from one shape to one size. Immutable: any number of threads may share one.
class ResizePlan {
 public:
  /// Throws std::invalid_argument if a size is below 1.
  ResizePlan(ImageShape shape, int64_t height, int64_t width);

  /// Writes the resized image (height * width * channels) to out.
  void apply(const uint8_t* image, uint8_t* out, ResizeScratch& scratch) const;

 private:
  struct Axis {
    int64_t taps = 0;              // weights an output position
    std::vector<int32_t> first;    // [output] first input position
    std::vector<int32_t> weights;  // [output, taps], fixed point; zero where the filter ends sooner
  };
  static Axis make_axis(int64_t input, int64_t output);

  ImageShape shape_;
  int64_t height_, width_;
  Axis columns_, rows_;
  std::vector<int32_t> byte_weights_;  // of columns_: [taps, width * channels]
};

/// Resizes one image: HWC uint8 in and out.
std::vector<uint8_t> resize_bilinear(std::span<const uint8_t> image, ImageShape shape, int64_t height, int64_t width);

}  // namespace mgtrain
