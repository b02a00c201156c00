#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/random.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

std::vector<uint8_t> random_image(ImageShape shape, uint64_t index = 0) {
  RandomStream random(3, RandomPurpose::kSyntheticImage, 0, index);
  std::vector<uint8_t> image(static_cast<size_t>(shape.size()));
  for (uint8_t& value : image) value = static_cast<uint8_t>(random.below(256));
  return image;
}

Transform make_transform(ImageShape shape, int64_t padding, bool flip, MemoryFormat format) {
  Transform transform{.input = shape,
                      .output_height = shape.height,
                      .output_width = shape.width,
                      .crop_padding = padding,
                      .flip = flip,
                      .mean = {},
                      .stddev = {},
                      .format = format,
                      .seed = 11};
  for (int64_t c = 0; c < shape.channels; ++c) {
    transform.mean.push_back(0.3F + 0.1F * static_cast<float>(c));
    transform.stddev.push_back(0.2F + 0.05F * static_cast<float>(c));
  }
  return transform;
}

std::vector<float> transformed(const Transform& transform, const std::vector<uint8_t>& image, int64_t epoch,
                               int64_t sample, bool augment) {
  // The ends are guarded, so that a float too many shows.
  const auto size = static_cast<size_t>(transform.input.channels * transform.output_height * transform.output_width);
  std::vector<float> out(size + 2, -77.0F);
  transform_image(transform, image, epoch, sample, augment, out.data() + 1);
  CHECK(out.front() == -77.0F);
  CHECK(out.back() == -77.0F);
  return {out.begin() + 1, out.end() - 1};
}

// Each output value looked up on its own in the padded image, in double.
std::vector<double> expected(const Transform& transform, const std::vector<uint8_t>& image, AugmentDraw draw) {
  const int64_t channels = transform.input.channels, height = transform.output_height, width = transform.output_width;
  std::vector<double> out(static_cast<size_t>(channels * height * width));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const int64_t from_y = y + draw.top - transform.crop_padding;
        const int64_t from_x = (draw.flip ? width - 1 - x : x) + draw.left - transform.crop_padding;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        double value = inside ? image[static_cast<size_t>((from_y * width + from_x) * channels + c)] / 255.0 : 0.0;
        if (!transform.mean.empty())
          value = (value - transform.mean[static_cast<size_t>(c)]) / transform.stddev[static_cast<size_t>(c)];
        const int64_t at =
            transform.format == MemoryFormat::kNhwc ? (y * width + x) * channels + c : (c * height + y) * width + x;
        out[static_cast<size_t>(at)] = value;
      }
    }
  }
  return out;
}

double worst_difference(const std::vector<float>& actual, const std::vector<double>& wanted) {
  REQUIRE(actual.size() == wanted.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) worst = std::max(worst, std::abs(actual[i] - wanted[i]));
  return worst;
}

constexpr MemoryFormat kFormats[] = {MemoryFormat::kNhwc, MemoryFormat::kNchw};
// Float32 arithmetic on values up to 5: three roundings of 6e-8 relative.
constexpr double kTolerance = 1e-6;

}  // namespace

TEST_CASE("crop, flip and normalise equal a value by value reference", "[data]") {
  for (const ImageShape shape :
       {ImageShape{3, 32, 32}, ImageShape{1, 28, 28}, ImageShape{4, 5, 9}, ImageShape{2, 1, 1}}) {
    for (const MemoryFormat format : kFormats) {
      for (const int64_t padding : {0, 1, 4, 40}) {  // 40: a crop may miss the image altogether
        for (const bool flip : {false, true}) {
          const Transform transform = make_transform(shape, padding, flip, format);
          for (int64_t sample = 0; sample < 12; ++sample) {
            const std::vector<uint8_t> image = random_image(shape, static_cast<uint64_t>(sample));
            const AugmentDraw draw = draw_augment(transform, 2, sample);
            INFO("channels " << shape.channels << " padding " << padding << " flip " << flip << " sample " << sample);
            CHECK(worst_difference(transformed(transform, image, 2, sample, true), expected(transform, image, draw)) <
                  kTolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("a flip alone mirrors an image, a crop alone moves it", "[data]") {
  Transform transform{
      .input = {1, 1, 3}, .output_height = 1, .output_width = 3, .flip = true, .mean = {}, .stddev = {}};
  std::vector<float> flipped, kept;
  for (int64_t sample = 0; flipped.empty() || kept.empty(); ++sample)
    (draw_augment(transform, 0, sample).flip ? flipped : kept) =
        transformed(transform, {51, 102, 255}, 0, sample, true);
  CHECK(kept == std::vector<float>{0.2F, 0.4F, 1.0F});
  CHECK(flipped == std::vector<float>{1.0F, 0.4F, 0.2F});

  transform.flip = false;
  transform.crop_padding = 1;
  for (int64_t sample = 0, seen = 0; seen != 7; ++sample) {
    const AugmentDraw draw = draw_augment(transform, 0, sample);
    if (draw.top != 1) continue;
    seen |= int64_t{1} << draw.left;
    const std::vector<float> padded = {0.0F, 0.2F, 0.4F, 1.0F, 0.0F};
    CHECK(transformed(transform, {51, 102, 255}, 0, sample, true) ==
          std::vector<float>(padded.begin() + draw.left, padded.begin() + draw.left + 3));
  }
}

TEST_CASE("padding is a black pixel, normalised like any other", "[data]") {
  Transform transform = make_transform({3, 4, 4}, 30, false, MemoryFormat::kNchw);
  for (int64_t sample = 0;; ++sample) {
    if (std::abs(draw_augment(transform, 0, sample).top - 30) < 4) continue;
    const std::vector<float> out = transformed(transform, random_image(transform.input), 0, sample, true);
    for (size_t i = 0; i < out.size(); ++i) CHECK(out[i] == Approx(-transform.mean[i / 16] / transform.stddev[i / 16]));
    break;
  }
}

TEST_CASE("normalised values are those of float32 arithmetic, bit for bit", "[data]") {
  std::vector<uint8_t> ramp(256);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<uint8_t>(i);
  Transform transform = make_transform({1, 16, 16}, 0, false, MemoryFormat::kNhwc);
  transform.mean = {0.4914F};
  transform.stddev = {0.2470F};
  const std::vector<float> out = transformed(transform, ramp, 0, 0, false);
  transform.mean = transform.stddev = {};
  const std::vector<float> plain = transformed(transform, ramp, 0, 0, false);
  for (size_t i = 0; i < ramp.size(); ++i) {
    const volatile float scaled = static_cast<float>(i) / 255.0F;
    const volatile float centred = scaled - 0.4914F;
    CHECK(plain[i] == scaled);
    CHECK(out[i] == centred / 0.2470F);
  }
}

TEST_CASE("evaluation draws nothing: neither crop nor flip, in whatever epoch", "[data]") {
  for (const MemoryFormat format : kFormats) {
    const Transform transform = make_transform({3, 8, 8}, 4, true, format);
    const std::vector<uint8_t> image = random_image(transform.input);
    const std::vector<double> wanted = expected(transform, image, {.flip = false, .top = 4, .left = 4});
    for (int64_t epoch = 0; epoch < 3; ++epoch)
      for (int64_t sample = 0; sample < 8; ++sample)
        CHECK(worst_difference(transformed(transform, image, epoch, sample, false), wanted) < kTolerance);
  }
}

TEST_CASE("draws depend on seed, epoch and sample alone, and cover every crop evenly", "[data]") {
  Transform transform = make_transform({3, 32, 32}, 4, true, MemoryFormat::kNhwc);
  constexpr int64_t kSamples = 8100;
  std::vector<int64_t> corners(81, 0);
  int64_t flips = 0, same_next_epoch = 0, same_other_seed = 0;
  Transform other = transform;
  other.seed = 12;
  const auto equal = [](AugmentDraw a, AugmentDraw b) {
    return a.flip == b.flip && a.top == b.top && a.left == b.left;
  };
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const AugmentDraw draw = draw_augment(transform, 5, sample);
    CHECK(equal(draw, draw_augment(transform, 5, sample)));
    ++corners.at(static_cast<size_t>(draw.top * 9 + draw.left));
    flips += draw.flip ? 1 : 0;
    same_next_epoch += equal(draw, draw_augment(transform, 6, sample)) ? 1 : 0;
    same_other_seed += equal(draw, draw_augment(other, 5, sample)) ? 1 : 0;
  }
  // 100 of each corner on average; chi-square with 80 degrees of freedom has mean 80, deviation 12.6: five of them.
  double chi_square = 0;
  for (const int64_t count : corners) chi_square += static_cast<double>((count - 100) * (count - 100)) / 100.0;
  CHECK(chi_square < 143);
  CHECK(std::abs(flips - kSamples / 2) < 5 * 45);  // deviation sqrt(8100) / 2
  // By chance one in 162 draws the same: 50, deviation 7.
  CHECK(same_next_epoch < 85);
  CHECK(same_other_seed < 85);
}

TEST_CASE("switching the crop on or off does not change which images are flipped", "[data]") {
  const Transform with = make_transform({3, 32, 32}, 4, true, MemoryFormat::kNhwc);
  const Transform without = make_transform({3, 32, 32}, 0, true, MemoryFormat::kNhwc);
  const Transform crop_only = make_transform({3, 32, 32}, 4, false, MemoryFormat::kNhwc);
  for (int64_t sample = 0; sample < 200; ++sample) {
    const AugmentDraw draw = draw_augment(with, 1, sample);
    CHECK(draw_augment(without, 1, sample).flip == draw.flip);
    CHECK(draw_augment(crop_only, 1, sample).top == draw.top);
    CHECK(draw_augment(crop_only, 1, sample).left == draw.left);
    CHECK_FALSE(draw_augment(crop_only, 1, sample).flip);
  }
}

TEST_CASE("an image is resized before it is cropped and flipped", "[data]") {
  for (const MemoryFormat format : kFormats) {
    Transform transform = make_transform({3, 8, 10}, 3, true, format);
    transform.output_height = 24;
    transform.output_width = 20;
    const std::vector<uint8_t> image = random_image(transform.input);
    const std::vector<uint8_t> resized = resize_bilinear(image, transform.input, 24, 20);
    for (int64_t sample = 0; sample < 8; ++sample) {
      const AugmentDraw draw = draw_augment(transform, 0, sample);
      CHECK(worst_difference(transformed(transform, image, 0, sample, true), expected(transform, resized, draw)) <
            kTolerance);
    }
  }
}

TEST_CASE("one transformer and scratch serve many images, as fresh ones would", "[data]") {
  Transform transform = make_transform({3, 8, 8}, 2, true, MemoryFormat::kNhwc);
  transform.output_height = transform.output_width = 12;
  const ImageTransformer transformer(transform);
  CHECK(transformer.output_size() == 3 * 12 * 12);
  ResizeScratch scratch;
  for (int64_t sample = 0; sample < 20; ++sample) {
    const std::vector<uint8_t> image = random_image(transform.input, static_cast<uint64_t>(sample));
    std::vector<float> out(static_cast<size_t>(transformer.output_size()));
    transformer.apply(image, 1, sample, true, out.data(), scratch);
    CHECK(out == transformed(transform, image, 1, sample, true));
  }
}

TEST_CASE("a transform that makes no sense is refused", "[data]") {
  const Transform good = make_transform({3, 8, 8}, 2, true, MemoryFormat::kNhwc);
  const auto refused = [&](auto&& change) {
    Transform bad = good;
    change(bad);
    CHECK_THROWS_AS(ImageTransformer(bad), std::invalid_argument);
  };
  CHECK_NOTHROW(ImageTransformer(good));
  refused([](Transform& t) { t.input.channels = 0; });
  refused([](Transform& t) { t.output_height = 0; });
  refused([](Transform& t) { t.crop_padding = -1; });
  refused([](Transform& t) { t.mean = {0.5F}; });
  refused([](Transform& t) { t.stddev.clear(); });
  refused([](Transform& t) { t.stddev[1] = 0; });
  refused([](Transform& t) { t.stddev[1] = std::nanf(""); });
  std::vector<float> out(3 * 8 * 8);
  CHECK_THROWS_AS(transform_image(good, std::vector<uint8_t>(10), 0, 0, false, out.data()), std::invalid_argument);
}

}  // namespace mgtrain::test
