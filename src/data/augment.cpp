#include "data/augment.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "base/random.h"

namespace mgtrain {
namespace {

constexpr int64_t kValues = 256;  // of a pixel

void check(const Transform& transform) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument("transform: " + what); };
  const ImageShape& input = transform.input;
  if (input.channels < 1 || input.height < 1 || input.width < 1 || transform.output_height < 1 ||
      transform.output_width < 1) {
    refuse("from " + std::to_string(input.channels) + "x" + std::to_string(input.height) + "x" +
           std::to_string(input.width) + " to " + std::to_string(transform.output_height) + "x" +
           std::to_string(transform.output_width) + " pixels; every size must be 1 or more");
  }
  if (transform.crop_padding < 0 || transform.crop_padding > (int64_t{1} << 30))
    refuse("crop_padding is " + std::to_string(transform.crop_padding) + "; it must be 0 to 2^30");
  const size_t means = transform.mean.size(), deviations = transform.stddev.size();
  if (means != deviations || (means != 0 && static_cast<int64_t>(means) != input.channels)) {
    refuse(std::to_string(means) + " means and " + std::to_string(deviations) + " deviations for " +
           std::to_string(input.channels) + " channels; give one of each a channel, or none");
  }
  for (const float deviation : transform.stddev) {
    if (!(deviation > 0)) refuse("a deviation is " + std::to_string(deviation) + "; it must be above 0");
  }
}

// Float32 throughout, each operation rounded, as torchvision computes.
std::vector<float> normalised_values(const Transform& transform) {
  std::vector<float> table;
  for (int64_t c = 0; c < transform.input.channels; ++c) {
    for (int64_t value = 0; value < kValues; ++value) {
      float normalised = static_cast<float>(value) / 255.0F;
      if (!transform.mean.empty()) {
        normalised -= transform.mean[static_cast<size_t>(c)];
        normalised /= transform.stddev[static_cast<size_t>(c)];
      }
      table.push_back(normalised);
    }
  }
  return table;
}

// A run of pixels of one row. kChannels 0: any number.
template <int kChannels, bool kFlip>
void look_up_pixels(const uint8_t* __restrict in, int64_t pixels, int64_t any_channels, const float* __restrict table,
                    float* __restrict out) {
  const int64_t channels = kChannels > 0 ? kChannels : any_channels;
  for (int64_t x = 0; x < pixels; ++x) {
    const uint8_t* pixel = in + (kFlip ? pixels - 1 - x : x) * channels;
    for (int64_t c = 0; c < channels; ++c) out[x * channels + c] = table[c * kValues + pixel[c]];
  }
}

// The same for one channel of them, to a row of that channel alone.
template <int kChannels, bool kFlip>
void look_up_channel(const uint8_t* __restrict in, int64_t pixels, int64_t any_channels, const float* __restrict table,
                     float* __restrict out) {
  const int64_t channels = kChannels > 0 ? kChannels : any_channels;
  for (int64_t x = 0; x < pixels; ++x) out[x] = table[in[(kFlip ? pixels - 1 - x : x) * channels]];
}

// Where the cropped image lies in the output and in the input; the rest of the output is padding.
struct Window {
  int64_t out_begin, out_end, in_begin;
  Window(int64_t size, int64_t shift)  // output position at takes input position at + shift
      : out_begin(std::clamp<int64_t>(-shift, 0, size)),
        out_end(std::max(out_begin, std::min(size, size - shift))),
        in_begin(length() > 0 ? out_begin + shift : 0) {}
  [[nodiscard]] int64_t length() const { return out_end - out_begin; }
};

template <int kChannels, bool kFlip>
void write_image(const Transform& transform, const uint8_t* image, int64_t down, int64_t right, const float* table,
                 float* out) {
  const int64_t height = transform.output_height, width = transform.output_width, channels = transform.input.channels;
  const Window rows(height, down), columns(width, right);
  // Flipped, the window's far side comes first.
  const int64_t left_pad = kFlip ? width - columns.out_end : columns.out_begin;
  const int64_t right_pad = width - columns.length() - left_pad;
  const uint8_t* in = image + (rows.in_begin * width + columns.in_begin) * channels;

  if (transform.format == MemoryFormat::kNhwc) {
    const auto pad = [&](int64_t pixels) {
      for (int64_t x = 0; x < pixels; ++x)
        for (int64_t c = 0; c < channels; ++c) *out++ = table[c * kValues];
    };
    pad(rows.out_begin * width);
    for (int64_t y = 0; y < rows.length(); ++y, in += width * channels) {
      pad(left_pad);
      look_up_pixels<kChannels, kFlip>(in, columns.length(), channels, table, out);
      out += columns.length() * channels;
      pad(right_pad);
    }
    pad((height - rows.out_end) * width);
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const float* values = table + c * kValues;
    const auto pad = [&](int64_t pixels) { out = std::fill_n(out, pixels, values[0]); };
    pad(rows.out_begin * width);
    for (int64_t y = 0; y < rows.length(); ++y) {
      pad(left_pad);
      look_up_channel<kChannels, kFlip>(in + y * width * channels + c, columns.length(), channels, values, out);
      out += columns.length();
      pad(right_pad);
    }
    pad((height - rows.out_end) * width);
  }
}

}  // namespace

AugmentDraw draw_augment(const Transform& transform, int64_t epoch, int64_t sample) {
  RandomStream random(transform.seed, RandomPurpose::kAugment, static_cast<uint64_t>(epoch),
                      static_cast<uint64_t>(sample));
  // Always in this order, so that switching one on does not change the other.
  AugmentDraw draw;
  const bool flip = (random.next_u32() >> 31) != 0;
  const auto corners = static_cast<uint32_t>(2 * transform.crop_padding + 1);
  draw.top = random.below(corners);
  draw.left = random.below(corners);
  draw.flip = transform.flip && flip;
  return draw;
}

ImageTransformer::ImageTransformer(Transform transform) : transform_(std::move(transform)) {
  check(transform_);
  table_ = normalised_values(transform_);
  if (transform_.output_height != transform_.input.height || transform_.output_width != transform_.input.width)
    resize_.emplace(transform_.input, transform_.output_height, transform_.output_width);
}

void ImageTransformer::apply(std::span<const uint8_t> image, int64_t epoch, int64_t sample, bool augment, float* out,
                             ResizeScratch& scratch) const {
  if (static_cast<int64_t>(image.size()) != transform_.input.size()) {
    throw std::invalid_argument("image " + std::to_string(sample) + " has " + std::to_string(image.size()) +
                                " bytes; its shape needs " + std::to_string(transform_.input.size()));
  }
  const uint8_t* pixels = image.data();
  if (resize_) {
    scratch.result.resize(static_cast<size_t>(output_size()));
    resize_->apply(pixels, scratch.result.data(), scratch);
    pixels = scratch.result.data();
  }
  AugmentDraw draw{.flip = false, .top = transform_.crop_padding, .left = transform_.crop_padding};  // in place
  if (augment && (transform_.flip || transform_.crop_padding > 0)) draw = draw_augment(transform_, epoch, sample);

  const auto write = [&]<int kChannels>(std::integral_constant<int, kChannels>) {
    const int64_t down = draw.top - transform_.crop_padding, right = draw.left - transform_.crop_padding;
    if (draw.flip) {
      write_image<kChannels, true>(transform_, pixels, down, right, table_.data(), out);
    } else {
      write_image<kChannels, false>(transform_, pixels, down, right, table_.data(), out);
    }
  };
  switch (transform_.input.channels) {
    case 1:
      return write(std::integral_constant<int, 1>());
    case 3:
      return write(std::integral_constant<int, 3>());
    default:
      return write(std::integral_constant<int, 0>());
  }
}

void transform_image(const Transform& transform, std::span<const uint8_t> image, int64_t epoch, int64_t sample,
                     bool augment, float* out) {
  ResizeScratch scratch;
  ImageTransformer(transform).apply(image, epoch, sample, augment, out, scratch);
}

}  // namespace mgtrain
