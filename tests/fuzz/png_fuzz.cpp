// PNG pictures, decoded to one and to three channels.
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
