#include "data/decode_png.h"

#include <png.h>

#include <stdexcept>
#include <vector>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr uint64_t kMostPixels = uint64_t{1} << 26;

/// libpng's simplified reader, freed in any case.
struct Reader {
  png_image image{};
  Reader() { image.version = PNG_IMAGE_VERSION; }
  ~Reader() { png_image_free(&image); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

}  // namespace

Picture decode_png(std::span<const std::byte> bytes, const std::string& name, int64_t channels) {
  if (channels != 1 && channels != 3) throw std::logic_error("a picture of neither 1 nor 3 channels");
  if (bytes.empty()) throw DataError(name + ": is empty; expected a PNG picture");
  Reader reader;
  png_image& image = reader.image;
  const auto fail = [&] {
    throw DataError(name + ": cannot be read as a PNG picture: " + image.message +
                    "; other formats than PNG are not supported");
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) fail();
  if (uint64_t{image.width} * image.height > kMostPixels) {
    throw DataError(name + ": " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                    " pixels; expected no more than " + std::to_string(kMostPixels) + " in all");
  }
  image.format = PNG_FORMAT_RGBA;  // without it libpng would blend transparency with a background
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, rgba.data(), 0, nullptr) == 0) fail();

  Picture picture{.shape = {.channels = channels, .height = image.height, .width = image.width}};
  picture.pixels.reserve(static_cast<size_t>(picture.shape.size()));
  for (size_t i = 0; i < rgba.size(); i += 4) {
    const uint32_t red = rgba[i], green = rgba[i + 1], blue = rgba[i + 2];
    if (channels == 3) {
      picture.pixels.insert(picture.pixels.end(), {rgba[i], rgba[i + 1], rgba[i + 2]});
    } else {
      // The weights of ITU-R BT.601 in 16 bits, rounded.
      picture.pixels.push_back(static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16));
    }
  }
  return picture;
}

}  // namespace mgtrain
