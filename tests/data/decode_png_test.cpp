#include "data/decode_png.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>

#include "base/random.h"
#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

struct PngKind {
  int color_type = PNG_COLOR_TYPE_GRAY, bit_depth = 8;
  bool interlaced = false;
  double gamma = 0;  // 0: says none
};

/// A PNG of rows as libpng takes them: packed bits, big-endian 16 bits.
std::string png(PngKind kind, uint32_t width, const std::vector<std::string>& rows,
                const std::vector<png_color>& palette = {}) {
  std::string bytes;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &bytes,
      [](png_structp png, png_bytep data, png_size_t size) {
        static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(writer, info, width, static_cast<uint32_t>(rows.size()), kind.bit_depth, kind.color_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) {
    png_set_PLTE(writer, info, palette.data(), static_cast<int>(palette.size()));
    const png_byte alpha[] = {0, 128};
    png_set_tRNS(writer, info, alpha, 2, nullptr);
  }
  if (kind.gamma > 0) png_set_gAMA(writer, info, kind.gamma);
  png_write_info(writer, info);
  std::vector<png_bytep> pointers;
  std::vector<std::string> copies = rows;
  for (std::string& row : copies) pointers.push_back(reinterpret_cast<png_bytep>(row.data()));
  png_write_image(writer, pointers.data());
  png_write_end(writer, nullptr);
  png_destroy_write_struct(&writer, &info);
  return bytes;
}

Picture decode(const std::string& bytes, int64_t channels) {
  return decode_png(std::as_bytes(std::span(bytes)), "a.png", channels);
}
std::vector<uint8_t> pixels(const std::string& bytes, int64_t channels) { return decode(bytes, channels).pixels; }
using Bytes = std::vector<uint8_t>;

TEST_CASE("a grey PNG gives its bytes, or each three times", "[data]") {
  const std::string bytes = png({}, 3, {"\x01\x02\x03", "\xfd\xfe\xff"});
  CHECK(decode(bytes, 1).shape == ImageShape{.channels = 1, .height = 2, .width = 3});
  CHECK(pixels(bytes, 1) == Bytes{1, 2, 3, 253, 254, 255});
  CHECK(decode(bytes, 3).shape == ImageShape{.channels = 3, .height = 2, .width = 3});
  CHECK(pixels(bytes, 3) == Bytes{1, 1, 1, 2, 2, 2, 3, 3, 3, 253, 253, 253, 254, 254, 254, 255, 255, 255});
}

TEST_CASE("an RGB PNG gives its bytes, or the luma of each pixel", "[data]") {
  const std::string bytes =
      png({.color_type = PNG_COLOR_TYPE_RGB}, 4, {std::string("\xff\0\0\0\xff\0\0\0\xff\x0a\x14\x1e", 12)});
  CHECK(pixels(bytes, 3) == Bytes{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30});
  // Pillow's convert("L") of the same.
  CHECK(pixels(bytes, 1) == Bytes{76, 150, 29, 18});
}

TEST_CASE("transparency is dropped, not blended", "[data]") {
  CHECK(pixels(png({.color_type = PNG_COLOR_TYPE_RGBA}, 1, {std::string("\x10\x20\x30\0", 4)}), 3) ==
        Bytes{16, 32, 48});
  CHECK(pixels(png({.color_type = PNG_COLOR_TYPE_GRAY_ALPHA}, 2, {std::string("\x10\0\x20\xff", 4)}), 1) ==
        Bytes{16, 32});
}

TEST_CASE("few bits of grey are stretched, of sixteen the high byte counts", "[data]") {
  CHECK(pixels(png({.bit_depth = 1}, 3, {"\xa0"}), 1) == Bytes{255, 0, 255});
  CHECK(pixels(png({.bit_depth = 2}, 4, {"\x1b"}), 1) == Bytes{0, 85, 170, 255});
  CHECK(pixels(png({.bit_depth = 4}, 2, {"\x1f"}), 1) == Bytes{17, 255});
  CHECK(pixels(png({.bit_depth = 16}, 2, {"\x12\xff\x80\x01"}), 1) == Bytes{0x12, 0x80});
  CHECK(pixels(png({.color_type = PNG_COLOR_TYPE_RGB, .bit_depth = 16}, 1, {"\x12\xff\x80\x01\xff\xff"}), 3) ==
        Bytes{0x12, 0x80, 0xff});
}

TEST_CASE("a palette's colours stand for its indices", "[data]") {
  const std::vector<png_color> palette = {{255, 0, 0}, {10, 20, 30}, {0, 0, 255}};
  const std::string bytes =
      png({.color_type = PNG_COLOR_TYPE_PALETTE, .bit_depth = 2}, 4, {"\x19"}, palette);  // 0 1 2 1
  CHECK(pixels(bytes, 3) == Bytes{255, 0, 0, 10, 20, 30, 0, 0, 255, 10, 20, 30});
  CHECK(pixels(bytes, 1) == Bytes{76, 18, 29, 18});
}

TEST_CASE("an interlaced PNG gives the pixels of a plain one", "[data]") {
  std::vector<std::string> rows;
  for (int y = 0; y < 11; ++y) rows.push_back(ramp(3 * 13, 7 * y, 5));
  const PngKind plain{.color_type = PNG_COLOR_TYPE_RGB};
  const PngKind interlaced{.color_type = PNG_COLOR_TYPE_RGB, .interlaced = true};
  CHECK(pixels(png(interlaced, 13, rows), 3) == pixels(png(plain, 13, rows), 3));
}

TEST_CASE("a gamma that a PNG names changes nothing", "[data]") {
  CHECK(pixels(png({.gamma = 1.0}, 3, {"\x20\x40\x80"}), 1) == Bytes{32, 64, 128});
}

TEST_CASE("what is no PNG, and one cut at any byte, is refused by name", "[data]") {
  const std::string whole = png({}, 3, {"\x01\x02\x03", "\xfd\xfe\xff"});
  const auto refused = [](const std::string& bytes) { return data_error([&] { decode(bytes, 1); }); };
  CHECK(refused("") == "a.png: is empty; expected a PNG picture");
  CHECK_THAT(refused("\xff\xd8\xff\xe0 a JPEG"), Contains("a.png: is no PNG picture"));
  for (size_t length = 1; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_THAT(refused(whole.substr(0, length)), Contains(length < 8 ? "is no PNG" : "the file ends too early"));
  }
  std::string checksum = whole;
  checksum[whole.size() - 13] ^= 1;  // of the chunk of pixels; IEND's 12 bytes follow
  CHECK_THAT(refused(checksum), Contains("the PNG picture is damaged") && Contains("CRC"));
}

TEST_CASE("a PNG whose header claims more pixels than it can hold is refused before they are allocated", "[data]") {
  std::string bytes = png({}, 3, {"\x01\x02\x03"});
  const auto claim = [&](uint32_t width, uint32_t height) {
    std::string claimed = bytes;
    claimed.replace(16, 8, big_endian(width) + big_endian(height));
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(claimed.data()) + 12, 17);
    claimed.replace(29, 4, big_endian(static_cast<uint32_t>(crc)));
    return data_error([&] { decode(claimed, 1); });
  };
  CHECK_THAT(claim(8192, 8192), Contains("bytes cannot hold 8192 x 8192 pixels"));
  CHECK_THAT(claim(8193, 8192), Contains("8193 x 8192 pixels; expected no more than 67108864"));
  CHECK_THAT(claim(1'000'001, 1), Contains("damaged"));
  CHECK_THAT(claim(0, 5), Contains("damaged"));
  CHECK_THAT(claim(3, 2), Contains("damaged"));
}

/// A chunk with its checksum; `claimed`: the length that it says it has.
std::string chunk(const std::string& kind, const std::string& content, uint32_t claimed) {
  const std::string checked = kind + content;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(claimed) + checked + big_endian(static_cast<uint32_t>(crc));
}

TEST_CASE("a chunk that is no pixels is skipped, whatever it unpacks to or claims to be", "[data]") {
  const std::string whole = png({}, 2, {ramp(2), ramp(2, 7)});
  const size_t behind_header = 8 + 25;
  const auto with = [&](const std::string& extra) {
    return whole.substr(0, behind_header) + extra + whole.substr(behind_header);
  };
  const auto pixels = [](const std::string& bytes) {
    return decode_png(std::as_bytes(std::span(bytes)), "a.png", 1).pixels;
  };
  // A gigabyte of text, were it unpacked. The member is gzip's; its body without header and trailer is deflate's.
  const std::string bomb = gzip(std::string(64 << 20, 'a'));
  const std::string text = std::string("Title\0\0", 7) + "\x78\xda" + bomb.substr(10, bomb.size() - 18);
  std::string many;
  for (int i = 0; i < 16; ++i) many += chunk("zTXt", text, static_cast<uint32_t>(text.size()));
  CHECK(pixels(with(many)) == pixels(whole));
  CHECK(pixels(with(chunk("iCCP", text, static_cast<uint32_t>(text.size())))) == pixels(whole));

  // tests/fuzz/corpus/png/finding-chunk-length watches what is allocated for the claim.
  for (const char* kind : {"tEXt", "zTXt", "iCCP", "tRNS", "PLTE", "abCd"}) {
    INFO(kind);
    CHECK_THROWS_AS(pixels(with(chunk(kind, "", 0x60000000))), DataError);
  }
}

TEST_CASE("damaged PNGs are decoded or refused, nothing else", "[data]") {
  std::vector<std::string> rows;
  for (int y = 0; y < 9; ++y) rows.push_back(ramp(27, 7 * y, 5));
  const std::vector<std::string> seeds = {
      png({.color_type = PNG_COLOR_TYPE_RGB}, 9, rows),
      png({.color_type = PNG_COLOR_TYPE_RGB, .interlaced = true}, 9, rows),
      png({.bit_depth = 16, .gamma = 0.45}, 9, rows), png({.color_type = PNG_COLOR_TYPE_GRAY_ALPHA}, 9, rows),
      png({.color_type = PNG_COLOR_TYPE_PALETTE}, 9, rows, std::vector<png_color>(256, png_color{1, 2, 3}))};
  int refusals = 0;
  for (uint64_t i = 0; i < 800; ++i) {
    RandomStream random(1, RandomPurpose::kSyntheticImage, 0, i);
    std::string bytes = seeds[i % seeds.size()];
    if (random.below(4) == 0) bytes.resize(random.below(static_cast<uint32_t>(bytes.size())));
    for (uint32_t flips = random.below(4); flips > 0 && !bytes.empty(); --flips) {
      bytes[random.below(static_cast<uint32_t>(bytes.size()))] ^= static_cast<char>(1U << random.below(8));
    }
    try {
      const Picture picture = decode(bytes, 1 + 2 * static_cast<int64_t>(i % 2));
      CHECK(static_cast<int64_t>(picture.pixels.size()) == picture.shape.size());
    } catch (const DataError&) {
      ++refusals;
    }
  }
  CHECK(refusals > 400);
  CHECK(refusals < 800);
}

}  // namespace
}  // namespace mgtrain::test
