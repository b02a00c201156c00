// IDX files, the form of MNIST and its family: a big-endian header, then bytes. Images are uint8 [count, height,
// width], labels uint8 [count]. http://yann.lecun.com/exdb/mnist/ describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/faults.h"
#include "data/image_set.h"

namespace mgtrain {

/// The two files of a part.
struct IdxFiles {
  std::filesystem::path images, labels;
};
struct IdxParts {
  std::optional<IdxFiles> train, val;
};

/// The parts in `path`: a folder, or one of the files (then those with the same prefix; none for any other file). Names
/// as MNIST's
/// ("train-images-idx3-ubyte", "t10k-...", "test-...", with '.' for a '-', any prefix, with or without .gz). Throws
/// DataError where a folder has several sets, or an images file without its labels.
IdxParts find_idx(const std::filesystem::path& path);

struct IdxImagesHeader {
  int64_t count = 0, height = 0, width = 0;
};
/// The header, checked against the file's size where the file is raw. Nothing after a fault.
std::optional<IdxImagesHeader> read_idx_images_header(const std::filesystem::path& file, Faults& faults);
/// All labels; their number is the header's, and nothing follows them. Nothing after a fault.
std::optional<std::vector<uint8_t>> read_idx_labels(const std::filesystem::path& file, Faults& faults);
/// All pixels, [count, height, width]. Nothing after a fault.
std::optional<std::vector<uint8_t>> read_idx_pixels(const std::filesystem::path& file, const IdxImagesHeader& expected,
                                                    Faults& faults);
/// One image, for `mgtrain predict FILE.idx:INDEX`; repeated over `channels`. Throws DataError.
Picture read_idx_image(const std::filesystem::path& file, int64_t index, int64_t channels);

}  // namespace mgtrain
