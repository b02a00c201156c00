#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/random.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_image(ImageShape shape, uint64_t seed) {
  RandomStream random(seed, RandomPurpose::kSyntheticImage, 0, 0);
  Bytes image(static_cast<size_t>(shape.size()));
  // Half of the values at the ends of the range, where a sum could leave it.
  for (uint8_t& value : image)
    value = static_cast<uint8_t>(std::clamp<int>(static_cast<int>(random.below(512)) - 128, 0, 255));
  return image;
}

// The definition, straightforwardly: output position `at` of an axis is the mean of the input under a triangle.
double filtered(const std::vector<double>& line, double scale, int64_t at) {
  const double support = std::max(scale, 1.0), center = (static_cast<double>(at) + 0.5) * scale;
  double sum = 0, weights = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - center) / support);
    sum += weight * line[i];
    weights += weight;
  }
  return sum / weights;
}

std::vector<double> expected_resize(const Bytes& image, ImageShape shape, int64_t height, int64_t width) {
  const auto [channels, input_height, input_width] = shape;
  std::vector<double> narrow(static_cast<size_t>(input_height * width * channels));
  for (int64_t y = 0; y < input_height; ++y) {
    for (int64_t c = 0; c < channels; ++c) {
      std::vector<double> line;
      for (int64_t x = 0; x < input_width; ++x)
        line.push_back(image[static_cast<size_t>((y * input_width + x) * channels + c)]);
      for (int64_t x = 0; x < width; ++x) {
        const double value = filtered(line, static_cast<double>(input_width) / static_cast<double>(width), x);
        narrow[static_cast<size_t>((y * width + x) * channels + c)] = std::floor(value + 0.5);
      }
    }
  }
  std::vector<double> out(static_cast<size_t>(height * width * channels));
  for (int64_t at = 0; at < width * channels; ++at) {
    std::vector<double> line;
    for (int64_t y = 0; y < input_height; ++y) line.push_back(narrow[static_cast<size_t>(y * width * channels + at)]);
    for (int64_t y = 0; y < height; ++y)
      out[static_cast<size_t>(y * width * channels + at)] =
          filtered(line, static_cast<double>(input_height) / static_cast<double>(height), y);
  }
  return out;
}

}  // namespace

TEST_CASE("a resize gives the values worked out by hand", "[data]") {
  // Doubled: centres at 0.25, 0.75, 1.25, 1.75 of pixels centred at 0.5 and 1.5.
  CHECK(resize_bilinear(Bytes{0, 255}, {1, 1, 2}, 1, 4) == Bytes{0, 64, 191, 255});
  CHECK(resize_bilinear(Bytes{0, 255}, {1, 2, 1}, 4, 1) == Bytes{0, 64, 191, 255});
  // Halved: weights 3/7, 3/7, 1/7 and 1/7, 3/7, 3/7, for the filter is twice as wide.
  CHECK(resize_bilinear(Bytes{0, 100, 200, 40}, {1, 1, 4}, 1, 2) == Bytes{71, 117});
  // Channels stay apart.
  CHECK(resize_bilinear(Bytes{0, 9, 255, 9}, {2, 1, 2}, 1, 4) == Bytes{0, 9, 64, 9, 191, 9, 255, 9});
}

TEST_CASE("an image resized to its own size stays as it is", "[data]") {
  const Bytes image = random_image({3, 9, 7}, 1);
  CHECK(resize_bilinear(image, {3, 9, 7}, 9, 7) == image);
}

TEST_CASE("a resize of one colour gives that colour, black and white to the bit", "[data]") {
  for (const int64_t size : {1, 5, 17, 96, 131}) {
    for (const uint8_t value : {0, 1, 127, 254, 255}) {
      const Bytes out = resize_bilinear(Bytes(3 * 32 * 28, value), {3, 32, 28}, size, size + 3);
      CHECK(std::all_of(out.begin(), out.end(), [&](uint8_t pixel) { return pixel == value; }));
    }
  }
}

TEST_CASE("a resize equals the filter's definition, up and down, in odd sizes, for 1 to 5 channels", "[data]") {
  struct Case {
    ImageShape shape;
    int64_t height, width;
  };
  const std::vector<Case> cases = {
      {{3, 32, 32}, 96, 96},  {{1, 28, 28}, 32, 32}, {{3, 32, 32}, 17, 17}, {{1, 64, 64}, 8, 8},   {{3, 1, 1}, 5, 5},
      {{3, 13, 7}, 5, 29},    {{1, 50, 3}, 49, 100}, {{2, 20, 20}, 33, 31}, {{4, 9, 40}, 40, 9},   {{5, 6, 7}, 8, 9},
      {{3, 75, 100}, 32, 32}, {{1, 2, 2}, 1, 1},     {{3, 32, 32}, 32, 45}, {{3, 32, 32}, 45, 32}, {{1, 1, 300}, 1, 7},
  };
  for (const Case& item : cases) {
    INFO(item.shape.channels << "x" << item.shape.height << "x" << item.shape.width << " to " << item.height << "x"
                             << item.width);
    const Bytes image = random_image(item.shape, 2);
    const Bytes out = resize_bilinear(image, item.shape, item.height, item.width);
    const std::vector<double> expected = expected_resize(image, item.shape, item.height, item.width);
    REQUIRE(out.size() == expected.size());
    double worst = 0;
    for (size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::abs(out[i] - expected[i]));
    // Half for the last rounding; a tie in the first pass, which fixed-point weights break either way, moves a value
    // by 1 before the second. Sizes such as 32 to 45 have a tie among 45 to 90 values.
    CHECK(worst < 1.5);
    int64_t off = 0;
    for (size_t i = 0; i < out.size(); ++i) off += std::abs(out[i] - expected[i]) > 0.5 + 1e-3 ? 1 : 0;
    CHECK(off * 20 < static_cast<int64_t>(out.size()));
  }
}

TEST_CASE("a resize refuses an empty size and an image of another size", "[data]") {
  CHECK_THROWS_AS(ResizePlan({3, 32, 32}, 0, 8), std::invalid_argument);
  CHECK_THROWS_AS(ResizePlan({0, 32, 32}, 8, 8), std::invalid_argument);
  CHECK_THROWS_AS(resize_bilinear(Bytes(10), {1, 3, 3}, 2, 2), std::invalid_argument);
}

}  // namespace mgtrain::test
