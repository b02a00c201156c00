#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace mgtrain {
namespace {

constexpr int kFractionBits = 22;  // 8 bits of pixel, 22 of weight, 2 to spare
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

// The weighted sum of `taps` rows of bytes, each `size` long and one after the other, with a weight for each row or
// (kEach) for each byte. kTaps 0: any number.
template <int kTaps, bool kEach>
[[gnu::always_inline]] inline void blend_loop(const uint8_t* __restrict in, int64_t size, int64_t any_taps,
                                              const int32_t* __restrict weights, uint8_t* __restrict out) {
  const int64_t taps = kTaps > 0 ? kTaps : any_taps;
  constexpr int64_t kBlock = 64;
  const auto block = [&](int64_t begin, int64_t length) {
    int32_t sums[kBlock];
    for (int64_t at = 0; at < length; ++at) sums[at] = kHalf;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const uint8_t* row = in + tap * size + begin;
      const int32_t* weight = weights + (kEach ? tap * size + begin : tap);
      for (int64_t at = 0; at < length; ++at) sums[at] += weight[kEach ? at : 0] * row[at];
    }
    // Weights are above 0 and sum to 1 but for their rounding, so that the result is in 0 to 255 but for rounding.
    for (int64_t at = 0; at < length; ++at)
      out[begin + at] = static_cast<uint8_t>(std::min(sums[at] >> kFractionBits, 255));
  };
  int64_t begin = 0;
  for (; begin + kBlock <= size; begin += kBlock) block(begin, kBlock);
  if (begin < size) block(begin, size - begin);
}

template <bool kEach>
[[gnu::always_inline]] inline void blend_taps(const uint8_t* in, int64_t size, int64_t taps, const int32_t* weights,
                                              uint8_t* out) {
  if (taps == 2) return blend_loop<2, kEach>(in, size, taps, weights, out);  // every enlargement
  blend_loop<0, kEach>(in, size, taps, weights, out);
}

// Integers: the same bits with either instruction set. x86-64 without AVX2 has no multiplication of 32-bit lanes, which
// makes it 3 times slower.
#if defined(__x86_64__)
template <bool kEach>
[[gnu::target("avx2")]] void blend_avx2(const uint8_t* in, int64_t size, int64_t taps, const int32_t* weights,
                                        uint8_t* out) {
  blend_taps<kEach>(in, size, taps, weights, out);
}
#endif

template <bool kEach>
void blend(const uint8_t* in, int64_t size, int64_t taps, const int32_t* weights, uint8_t* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return blend_avx2<kEach>(in, size, taps, weights, out);
#endif
  blend_taps<kEach>(in, size, taps, weights, out);
}

// out[tap][x] = the pixel that output position x weights as its tap.
template <int kChannels>
void spread(const uint8_t* __restrict row, int64_t any_channels, const int32_t* first, int64_t width, int64_t taps,
            uint8_t* __restrict out) {
  const int64_t channels = kChannels > 0 ? kChannels : any_channels;
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t x = 0; x < width; ++x, out += channels) {
      const uint8_t* from = row + (first[x] + tap) * channels;
      for (int64_t c = 0; c < channels; ++c) out[c] = from[c];
    }
  }
}

}  // namespace

ResizePlan::Axis ResizePlan::make_axis(int64_t input, int64_t output) {
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double support = std::max(scale, 1.0);
  Axis axis;
  axis.first.resize(static_cast<size_t>(output));
  std::vector<std::vector<double>> filters(static_cast<size_t>(output));
  for (int64_t at = 0; at < output; ++at) {
    const double center = (static_cast<double>(at) + 0.5) * scale;
    const auto begin = std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - support + 0.5)));
    const auto end = std::min(input, static_cast<int64_t>(std::floor(center + support + 0.5)));
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
  axis.weights.assign(static_cast<size_t>(output * axis.taps), 0);
  for (int64_t at = 0; at < output; ++at) {
    int32_t& first = axis.first[static_cast<size_t>(at)];
    const auto moved = std::min(first, static_cast<int32_t>(input - axis.taps));
    int32_t* weights = &axis.weights[static_cast<size_t>(at * axis.taps)] + (first - moved);
    for (const double weight : filters[static_cast<size_t>(at)])
      *weights++ = static_cast<int32_t>(std::floor(weight * (1 << kFractionBits) + 0.5));
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
  for (int64_t tap = 0; tap < columns_.taps; ++tap) {
    for (int64_t x = 0; x < width; ++x) {
      const int32_t weight = columns_.weights[static_cast<size_t>(x * columns_.taps + tap)];
      byte_weights_.insert(byte_weights_.end(), static_cast<size_t>(shape.channels), weight);
    }
  }
}

void ResizePlan::apply(const uint8_t* image, uint8_t* out, ResizeScratch& scratch) const {
  const int64_t channels = shape_.channels, row_size = width_ * channels;
  const uint8_t* narrow = image;
  if (width_ != shape_.width) {
    scratch.rows.resize(static_cast<size_t>(shape_.height * row_size));
    scratch.taps.resize(static_cast<size_t>(columns_.taps * row_size));
    for (int64_t y = 0; y < shape_.height; ++y) {
      const uint8_t* row = image + y * shape_.width * channels;
      switch (channels) {
        case 1:
          spread<1>(row, 1, columns_.first.data(), width_, columns_.taps, scratch.taps.data());
          break;
        case 3:
          spread<3>(row, 3, columns_.first.data(), width_, columns_.taps, scratch.taps.data());
          break;
        default:
          spread<0>(row, channels, columns_.first.data(), width_, columns_.taps, scratch.taps.data());
      }
      blend<true>(scratch.taps.data(), row_size, columns_.taps, byte_weights_.data(),
                  scratch.rows.data() + y * row_size);
    }
    narrow = scratch.rows.data();
  }
  if (height_ == shape_.height) {
    std::copy_n(narrow, height_ * row_size, out);
    return;
  }
  for (int64_t y = 0; y < height_; ++y, out += row_size) {
    blend<false>(narrow + rows_.first[static_cast<size_t>(y)] * row_size, row_size, rows_.taps,
                 &rows_.weights[static_cast<size_t>(y * rows_.taps)], out);
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
