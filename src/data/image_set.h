// Images resident in memory as they are stored: uint8, HWC, one after the other. Torch-free and immutable once made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mgtrain {

struct ImageShape {
  int64_t channels = 0, height = 0, width = 0;
  [[nodiscard]] int64_t size() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

struct ImageSet {
  ImageShape shape;
  std::vector<uint8_t> pixels;  // [count, height, width, channels]
  std::vector<int32_t> labels;  // [count], in [0, num_classes)
  int64_t num_classes = 0;

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(labels.size()); }
  [[nodiscard]] std::span<const uint8_t> image(int64_t index) const {
    return std::span<const uint8_t>(pixels).subspan(static_cast<size_t>(index * shape.size()),
                                                    static_cast<size_t>(shape.size()));
  }
};

/// One image by itself.
struct Picture {
  ImageShape shape;
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

/// Mean and (population) standard deviation per channel, in units of [0, 1].
struct ChannelStats {
  std::vector<double> mean, stddev;
};

}  // namespace mgtrain
