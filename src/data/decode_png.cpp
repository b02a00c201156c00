#include "data/decode_png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr uint64_t kMostPixels = uint64_t{1} << 26;
constexpr png_alloc_size_t kLargestChunk = 1 << 20;  // of those that are not pixels

/// libpng and what it works on. It reports errors by longjmp: the functions that call it hold no object with a
/// destructor, and say by their result whether they came to their end.
struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;
  char message[128] = "libpng cannot be started";

  Reader() = default;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof reader->message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, png_size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->rest.size()) png_error(png, "the file ends too early");
  std::memcpy(out, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

struct Header {
  png_uint_32 width = 0, height = 0;
  int bit_depth = 0, color_type = 0;
};

bool read_header(Reader& reader, Header& header) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png == nullptr) return false;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader, on_read);
  // Texts, profiles and the like decide nothing here, and unpacked they may be large: skipped. libpng would else
  // allocate up to 2 GiB for a chunk that only claims to be as long.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_chunk_malloc_max(reader.png, kLargestChunk);
  png_read_info(reader.png, reader.info);
  png_get_IHDR(reader.png, reader.info, &header.width, &header.height, &header.bit_depth, &header.color_type, nullptr,
               nullptr, nullptr);
  return true;
}

/// To 8 bits; grey or RGB, without alpha. Gives the bytes of a row, 0 after an error.
size_t set_conversions(Reader& reader, const Header& header) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return 0;
  if (header.color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (header.color_type == PNG_COLOR_TYPE_GRAY && header.bit_depth < 8) png_set_expand_gray_1_2_4_to_8(reader.png);
  png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return png_get_rowbytes(reader.png, reader.info);
}

bool read_rows(Reader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Picture decode_png(std::span<const std::byte> bytes, const std::string& name, int64_t channels) {
  if (channels != 1 && channels != 3) throw std::logic_error("a picture of neither 1 nor 3 channels");
  if (bytes.empty()) throw DataError(name + ": is empty; expected a PNG picture");
  const auto* signature = reinterpret_cast<png_const_bytep>(bytes.data());
  if (bytes.size() < 8 || png_sig_cmp(signature, 0, 8) != 0)
    throw DataError(name + ": is no PNG picture; other formats are not supported");
  Reader reader;
  reader.rest = bytes;
  const auto fail = [&] {
    throw DataError(name + ": the PNG picture is damaged: " + reader.message + "; fetch or save it again");
  };
  Header header;
  if (!read_header(reader, header)) fail();
  const uint64_t num_pixels = uint64_t{header.width} * header.height;
  if (num_pixels > kMostPixels) {
    throw DataError(name + ": " + std::to_string(header.width) + " x " + std::to_string(header.height) +
                    " pixels; expected no more than " + std::to_string(kMostPixels) + " in all");
  }
  // Deflate packs at most 1032 bytes into one: a size that the file cannot fill is not allocated.
  if (num_pixels * static_cast<uint64_t>(header.bit_depth) / 8 > bytes.size() * 1032) {
    throw DataError(name + ": the PNG picture is damaged: " + std::to_string(bytes.size()) + " bytes cannot hold " +
                    std::to_string(header.width) + " x " + std::to_string(header.height) +
                    " pixels; fetch or save it again");
  }
  const size_t row_bytes = set_conversions(reader, header);
  const auto stored_channels = static_cast<int64_t>(row_bytes / header.width);
  if (row_bytes == 0 || (stored_channels != 1 && stored_channels != 3)) fail();
  std::vector<uint8_t> stored(row_bytes * header.height);
  std::vector<png_bytep> rows(header.height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = stored.data() + y * row_bytes;
  if (!read_rows(reader, rows.data())) fail();

  Picture picture{.shape = {.channels = channels, .height = header.height, .width = header.width}};
  if (stored_channels == channels) {
    picture.pixels = std::move(stored);
  } else if (channels == 3) {
    picture.pixels.reserve(3 * stored.size());
    for (const uint8_t grey : stored) picture.pixels.insert(picture.pixels.end(), 3, grey);
  } else {
    picture.pixels.reserve(stored.size() / 3);
    for (size_t i = 0; i < stored.size(); i += 3) {
      // The weights of ITU-R BT.601 in 16 bits, rounded.
      const uint32_t sum = 19595U * stored[i] + 38470U * stored[i + 1] + 7471U * stored[i + 2] + 0x8000U;
      picture.pixels.push_back(static_cast<uint8_t>(sum >> 16));
    }
  }
  return picture;
}

}  // namespace mgtrain
