// From uint8 images to normalised floats, in one pass, on the CPU, torch-free. Every random draw is
// f(seed, RandomPurpose::kAugment, epoch, sample index). Order: resize, crop, flip, normalise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/image_set.h"
#include "data/normalise.h"
#include "data/resize.h"

namespace mgtrain {

enum class MemoryFormat { kNchw, kNhwc };

/// What happens to an image on its way to the model. Training draws crop and flip; evaluation does not.
struct Transform {
  ImageShape input;                             // as stored
  int64_t output_height = 0, output_width = 0;  // after resize
  int64_t crop_padding = 0;         // zero padding (of the uint8 image) before a random crop to the output size
  bool flip = false;                // left to right, with probability 1/2
  std::vector<float> mean, stddev;  // per channel, units of [0, 1]; empty: pixels/255 only
  MemoryFormat format = MemoryFormat::kNhwc;
  uint64_t seed = 0;
};

/// What is drawn for one sample of one epoch: the crop's corner in the padded image, 0 to 2 * crop_padding each way.
struct AugmentDraw {
  bool flip = false;
  int64_t top = 0, left = 0;
};
AugmentDraw draw_augment(const Transform& transform, int64_t epoch, int64_t sample);

/// A transform made ready for many images: the normalised value of each pixel value, the coefficients of the resize.
/// Immutable, so any number of threads may share one; each brings its own scratch.
class ImageTransformer {
 public:
  /// Throws std::invalid_argument if the sizes, the padding, or the number of means and deviations make no sense.
  explicit ImageTransformer(Transform transform);

  [[nodiscard]] const Transform& transform() const { return transform_; }
  /// Floats of one image.
  [[nodiscard]] int64_t output_size() const {
    return transform_.input.channels * transform_.output_height * transform_.output_width;
  }

  /// Writes `sample` drawn for `epoch` to out (output_size() floats in the transform's format). Without `augment`
  /// there is no random crop or flip. The values are those of float32 arithmetic on ((x / 255) - mean) / stddev,
  /// bit for bit as torchvision's ToTensor and Normalize have them. Throws std::invalid_argument if the image has
  /// another size than transform().input.
  void apply(std::span<const uint8_t> image, int64_t epoch, int64_t sample, bool augment, float* out,
             ResizeScratch& scratch) const;

 private:
  Transform transform_;
  PixelNormaliser normaliser_;
  std::optional<ResizePlan> resize_;  // none: stored size
};

/// ImageTransformer(transform).apply(...) for a single image.
void transform_image(const Transform& transform, std::span<const uint8_t> image, int64_t epoch, int64_t sample,
                     bool augment, float* out);

}  // namespace mgtrain
