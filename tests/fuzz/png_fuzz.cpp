// PNG pictures, decoded to one and to three channels.
#include <zlib.h>

#include "base/error.h"
#include "data/decode_png.h"
#include "fuzz/fuzz.h"

using namespace mgtrain;

namespace {

/// Nothing is left of a picture that is damaged, so both are refused or neither.
bool decode(std::span<const std::byte> bytes, int64_t channels) {
  try {
    const Picture picture = decode_png(bytes, "fuzz.png", channels);
    fuzz::demand(picture.shape.channels == channels && picture.shape.height > 0 && picture.shape.width > 0 &&
                     picture.pixels.size() == static_cast<size_t>(picture.shape.size()),
                 "a picture has its pixels");
    fuzz::touch(picture.pixels);
    return true;
  } catch (const DataError& error) {
    fuzz::touch(std::string_view(error.what()));
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  fuzz::demand(decode(bytes, 1) == decode(bytes, 3), "a picture is whole in grey and in colour");
  return 0;
}

#ifdef MGTRAIN_FUZZ
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

/// Changes the bytes and, mostly, puts the checksums of the chunks right again, without which none is looked into.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 == 0) return size;
  constexpr size_t kSignature = 8, kFrame = 12;  // of a chunk: length, kind, checksum
  const auto big_endian = [](const uint8_t* at) {
    return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
  };
  for (size_t at = kSignature; at < size && size - at >= kFrame;) {
    const size_t length = big_endian(data + at);
    if (length > size - at - kFrame) break;
    const auto crc = static_cast<uint32_t>(crc32(0, data + at + 4, static_cast<uInt>(length + 4)));
    for (int i = 0; i < 4; ++i)
      data[at + 8 + length + static_cast<size_t>(i)] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    at += kFrame + length;
  }
  return size;
}
#endif
