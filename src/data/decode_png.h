// PNG pictures, decoded with libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/image_set.h"

namespace mgtrain {

/// The picture as 8-bit samples of 1 or 3 `channels`, as Pillow's convert("L") and convert("RGB") give them: palettes
/// and 16 bits are converted, transparency is dropped, grey is 0.299 R + 0.587 G + 0.114 B. Throws DataError naming
/// `name` for what is no PNG, damaged, or larger than 2^26 pixels.
Picture decode_png(std::span<const std::byte> bytes, const std::string& name, int64_t channels);

}  // namespace mgtrain
