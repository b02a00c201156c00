#include "data/synthetic.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace mgtrain {
namespace {

constexpr std::string_view kPrefix = "synthetic:";
constexpr int64_t kPatches = 4;
constexpr int64_t kMostBytes = int64_t{1} << 36, kLargestSide = 4096, kMostClasses = 100'000, kMostImages = 1 << 30;

std::optional<std::vector<int64_t>> numbers(std::string_view text, char separator) {
  std::vector<int64_t> values;
  for (;;) {
    const size_t end = text.find(separator);
    const std::string_view item = text.substr(0, end);
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc() || rest != item.data() + item.size()) return std::nullopt;
    values.push_back(value);
    if (end == std::string_view::npos) return values;
    text.remove_prefix(end + 1);
  }
}

bool within(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

}  // namespace

SyntheticShape parse_synthetic(const std::string& text) {
  const auto fail = [&](const std::string& why) -> ConfigError {
    return ConfigError("data.path: \"" + text + "\" " + why +
                       "; expected synthetic:CxHxW, such as synthetic:3x32x32, with xCLASSES and @TRAIN+TEST behind it "
                       "if wanted, such as synthetic:3x32x32x100@5000+1000");
  };
  std::string_view rest(text);
  if (!rest.starts_with(kPrefix)) throw fail("does not start with synthetic:");
  rest.remove_prefix(kPrefix.size());
  const size_t at = rest.find('@');
  const auto shape = numbers(rest.substr(0, at), 'x');
  if (!shape || shape->size() < 3 || shape->size() > 4) throw fail("has no shape of three or four numbers");
  SyntheticShape result;
  result.image = {.channels = (*shape)[0], .height = (*shape)[1], .width = (*shape)[2]};
  if (shape->size() == 4) result.num_classes = (*shape)[3];
  if (at != std::string_view::npos) {
    const auto counts = numbers(rest.substr(at + 1), '+');
    if (!counts || counts->size() > 2) throw fail("has no count of images behind its @");
    result.num_train = (*counts)[0];
    result.num_val = counts->size() == 2 ? (*counts)[1] : 0;
  }
  const ImageShape& image = result.image;
  if (image.channels != 1 && image.channels != 3)
    throw fail("has " + std::to_string(image.channels) + " channels, not 1 or 3");
  if (!within(image.height, 1, kLargestSide) || !within(image.width, 1, kLargestSide))
    throw fail("has a side that is not 1 to " + std::to_string(kLargestSide) + " pixels");
  if (!within(result.num_classes, 1, kMostClasses))
    throw fail("has a number of classes that is not 1 to " + std::to_string(kMostClasses));
  if (!within(result.num_train, 1, kMostImages) || !within(result.num_val, 0, kMostImages))
    throw fail("has a number of images that is not 1 to " + std::to_string(kMostImages));
  if ((result.num_train + result.num_val) > kMostBytes / image.size()) throw fail("needs more than 64 GiB of memory");
  return result;
}

ImageSet make_synthetic(const SyntheticShape& shape, bool train, uint64_t seed) {
  const ImageShape& image = shape.image;
  const int64_t count = train ? shape.num_train : shape.num_val;
  ImageSet set{.shape = image, .num_classes = shape.num_classes};
  set.pixels.resize(static_cast<size_t>(count * image.size()));
  set.labels.reserve(static_cast<size_t>(count));
  // 64 to 191 for a patch of a class's pattern, and noise of up to 63 either way.
  const int64_t patches = kPatches * kPatches * image.channels;
  std::vector<uint8_t> patterns;
  for (int64_t c = 0; c < shape.num_classes; ++c) {
    RandomStream random(seed, RandomPurpose::kSyntheticLabel, 0, static_cast<uint64_t>(c));
    for (int64_t p = 0; p < patches; ++p) patterns.push_back(static_cast<uint8_t>(64 + random.below(128)));
  }
  uint8_t* out = set.pixels.data();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = i % shape.num_classes;
    set.labels.push_back(static_cast<int32_t>(label));
    RandomStream random(seed, RandomPurpose::kSyntheticImage, train ? 0 : 1, static_cast<uint64_t>(i));
    const uint8_t* pattern = patterns.data() + label * patches;
    uint32_t bits = 0;
    int left = 0;
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x) {
        const int64_t patch = (y * kPatches / image.height * kPatches + x * kPatches / image.width) * image.channels;
        for (int64_t c = 0; c < image.channels; ++c) {
          if (left == 0) {
            bits = random.next_u32();
            left = 4;
          }
          *out++ = static_cast<uint8_t>(pattern[patch + c] + (bits & 0x7f) - 64);
          bits >>= 8;
          --left;
        }
      }
    }
  }
  return set;
}

}  // namespace mgtrain
