#include "data/augment.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/random.h"

namespace mgtrain {
namespace {

Transform checked(Transform transform) {
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
  return transform;
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

// `step` values a pixel, the normalised ones of 0.
void fill_black(float* out, int64_t pixels, int64_t step, const float* black) {
  if (step == 3) {
    const float red = black[0], green = black[1], blue = black[2];
    for (; pixels > 0; --pixels, out += 3) {
      out[0] = red;
      out[1] = green;
      out[2] = blue;
    }
  } else if (step == 1) {
    std::fill_n(out, pixels, *black);
  } else {
    for (; pixels > 0; --pixels) out = std::copy_n(black, step, out);
  }
}

void write_image(const Transform& transform, const PixelNormaliser& normaliser, const uint8_t* image, AugmentDraw draw,
                 float* out) {
  const int64_t height = transform.output_height, width = transform.output_width, channels = transform.input.channels;
  const Window rows(height, draw.top - transform.crop_padding), columns(width, draw.left - transform.crop_padding);
  // Flipped, the window's far side comes first.
  const int64_t left_pad = draw.flip ? width - columns.out_end : columns.out_begin;
  const int64_t right_pad = width - columns.length() - left_pad;
  const bool nhwc = transform.format == MemoryFormat::kNhwc;

  // Of each plane, `step` values a pixel: one plane of all channels, or one a channel.
  const int64_t planes = nhwc ? 1 : channels, step = nhwc ? channels : 1;
  for (int64_t plane = 0; plane < planes; ++plane, out += height * width * step) {
    const auto pad = [&](int64_t first, int64_t pixels) {
      fill_black(out + first * step, pixels, step, normaliser.black() + plane);
    };
    PixelRows window{.in = image + (rows.in_begin * width + columns.in_begin) * channels,
                     .in_stride = width * channels,
                     .out = out + (rows.out_begin * width + left_pad) * step,
                     .out_stride = width * step,
                     .rows = rows.length(),
                     .pixels = columns.length(),
                     .flip = draw.flip};
    if (window.pixels == width && !draw.flip) {  // rows without a gap are one long row
      window.pixels *= window.rows;
      window.rows = window.rows > 0 ? 1 : 0;
    }
    if (nhwc) {
      normaliser.interleaved(window);
    } else {
      normaliser.planar(window, plane);
    }
    pad(0, rows.out_begin * width);
    for (int64_t y = rows.out_begin; y < rows.out_end && left_pad + right_pad > 0; ++y) {
      pad(y * width, left_pad);
      pad((y + 1) * width - right_pad, right_pad);
    }
    pad(rows.out_end * width, (height - rows.out_end) * width);
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

ImageTransformer::ImageTransformer(Transform transform)
    : transform_(checked(std::move(transform))),
      normaliser_(transform_.input.channels, transform_.mean, transform_.stddev) {
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

  write_image(transform_, normaliser_, pixels, draw, out);
}

void transform_image(const Transform& transform, std::span<const uint8_t> image, int64_t epoch, int64_t sample,
                     bool augment, float* out) {
  ResizeScratch scratch;
  ImageTransformer(transform).apply(image, epoch, sample, augment, out, scratch);
}

}  // namespace mgtrain
