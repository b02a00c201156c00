// PNG pictures, decoded with libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/image_set.h"

namespace mgtrain {

/// The picture as 8-bit samples of 1 or 3 `channels`, as Pillow's convert("L") and convert("RGB") give them: palettes
/// become RGB, grey of fewer bits is stretched to 0..255, transparency is dropped, gamma and colour profiles are left
/// alone, grey from RGB is 0.299 R + 0.587 G + 0.114 B. Of 16 bits the high byte counts (in grey too, where Pillow's
/// answer depends on its version). Throws DataError naming `name` for what is no PNG, damaged or cut, or larger than
/// 2^26 pixels.
Picture decode_png(std::span<const std::byte> bytes, const std::string& name, int64_t channels);

}  // namespace mgtrain
