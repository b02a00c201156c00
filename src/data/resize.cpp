#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace mgtrain {
namespace {

constexpr int kFractionBits = 22;  // 8 bits of pixel, 22 of weight, 2 to spare
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

inline uint8_t to_pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

}  // namespace

ResizePlan::Axis ResizePlan::make_axis(int64_t input, int64_t output) {
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double support = std::max(scale, 1.0);
  Axis axis;
  axis.first.resize(static_cast<size_t>(output));
  std::vector<std::vector<double>> filters(static_cast<size_t>(output));
  for (int64_t at = 0; at < output; ++at) {
    const double center = (static_cast<double>(at) + 0.5) * scale;
    const auto begin = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const auto end = std::min(input, static_cast<int64_t>(center + support + 0.5));
    std::vector<double>& filter = filters[static_cast<size_t>(at)];
    double sum = 0;
    for (int64_t in = begin; in < end; ++in) {
      const double distance = (static_cast<double>(in) - center + 0.5) * (1.0 / support);
      filter.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      sum += filter.back();
    }
    const double norm = 1.0 / sum;
    for (double& weight : filter) weight *= norm;
    axis.first[static_cast<size_t>(at)] = static_cast<int32_t>(begin);
    axis.taps = std::max(axis.taps, end - begin);
  }
  // Filters are cut by the border: the taps that are missing get weight 0 and stay inside the image.
  axis.taps = std::min(axis.taps, input);
  axis.weights.assign(static_cast<size_t>(output * axis.taps), 0);
  for (int64_t at = 0; at < output; ++at) {
    int32_t& first = axis.first[static_cast<size_t>(at)];
    const auto moved = std::min(first, static_cast<int32_t>(input - axis.taps));
    int32_t* weights = &axis.weights[static_cast<size_t>(at * axis.taps)] + (first - moved);
    for (const double weight : filters[static_cast<size_t>(at)])
      *weights++ = static_cast<int32_t>(weight * (1 << kFractionBits) + 0.5);
    first = moved;
  }
  return axis;
}

ResizePlan::ResizePlan(ImageShape shape, int64_t height, int64_t width)
    : shape_(shape), height_(height), width_(width) {
  if (shape.size() < 1 || height < 1 || width < 1) {
    throw std::invalid_argument("a resize from " + std::to_string(shape.height) + "x" + std::to_string(shape.width) +
                                " to " + std::to_string(height) + "x" + std::to_string(width) +
                                " pixels: every size must be 1 or more");
  }
  columns_ = make_axis(shape.width, width);
  rows_ = make_axis(shape.height, height);
}

void ResizePlan::apply(const uint8_t* image, uint8_t* out, ResizeScratch& scratch) const {
  const int64_t channels = shape_.channels, row_size = width_ * channels;
  const uint8_t* narrow = image;
  if (width_ != shape_.width) {
    scratch.rows.resize(static_cast<size_t>(shape_.height * row_size));
    uint8_t* to = scratch.rows.data();
    for (int64_t y = 0; y < shape_.height; ++y) {
      const uint8_t* row = image + y * shape_.width * channels;
      for (int64_t x = 0; x < width_; ++x) {
        const int32_t* weights = &columns_.weights[static_cast<size_t>(x * columns_.taps)];
        const uint8_t* from = row + columns_.first[static_cast<size_t>(x)] * channels;
        for (int64_t c = 0; c < channels; ++c) {
          int32_t sum = kHalf;
          for (int64_t tap = 0; tap < columns_.taps; ++tap) sum += weights[tap] * from[tap * channels + c];
          *to++ = to_pixel(sum);
        }
      }
    }
    narrow = scratch.rows.data();
  }
  if (height_ == shape_.height) {
    std::copy_n(narrow, height_ * row_size, out);
    return;
  }
  for (int64_t y = 0; y < height_; ++y) {
    const int32_t* weights = &rows_.weights[static_cast<size_t>(y * rows_.taps)];
    const uint8_t* from = narrow + rows_.first[static_cast<size_t>(y)] * row_size;
    for (int64_t at = 0; at < row_size; ++at) {
      int32_t sum = kHalf;
      for (int64_t tap = 0; tap < rows_.taps; ++tap) sum += weights[tap] * from[tap * row_size + at];
      *out++ = to_pixel(sum);
    }
  }
}

std::vector<uint8_t> resize_bilinear(std::span<const uint8_t> image, ImageShape shape, int64_t height, int64_t width) {
  const ResizePlan plan(shape, height, width);
  if (static_cast<int64_t>(image.size()) != shape.size()) {
    throw std::invalid_argument("an image of " + std::to_string(image.size()) + " bytes; its shape needs " +
                                std::to_string(shape.size()));
  }
  std::vector<uint8_t> out(static_cast<size_t>(height * width * shape.channels));
  ResizeScratch scratch;
  plan.apply(image.data(), out.data(), scratch);
  return out;
}

}  // namespace mgtrain
