// From uint8 images to normalised floats, in one pass, on the CPU, torch-free. Every random draw is
// f(seed, RandomPurpose::kAugment, epoch, sample index).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image_set.h"

namespace mgtrain {

enum class MemoryFormat { kNchw, kNhwc };

/// What happens to an image on its way to the model. Training draws crop and flip; evaluation does not.
struct Transform {
  ImageShape input;                   // as stored
  int64_t output_height = 0, output_width = 0;   // after resize
  int64_t crop_padding = 0;           // zero padding (of the uint8 image) before a random crop to the output size
  bool flip = false;
  std::vector<float> mean, stddev;    // per channel, units of [0, 1]; empty: pixels/255 only
  MemoryFormat format = MemoryFormat::kNhwc;
  uint64_t seed = 0;
};

/// Writes sample images[index], drawn for `epoch`, to out (channels * output_height * output_width floats in the
/// transform's format). `augment` false: no random crop or flip. Thread-safe.
void transform_image(const Transform& transform, std::span<const uint8_t> image, int64_t epoch, int64_t sample,
                     bool augment, float* out);

/// Bilinear resize with antialiasing (triangle filter of support max(1, scale)), as PIL's Image.resize BILINEAR:
/// equal within 1/255. HWC uint8 in and out.
std::vector<uint8_t> resize_bilinear(std::span<const uint8_t> image, ImageShape shape, int64_t height, int64_t width);

}  // namespace mgtrain
