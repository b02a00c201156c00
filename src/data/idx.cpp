#include "data/idx.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>

#include "base/error.h"
#include "data/data_file.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

constexpr uint32_t kImagesMagic = 2051, kLabelsMagic = 2049;
constexpr int64_t kLargestSide = 1 << 16, kMostImages = int64_t{1} << 31;

uint32_t big_endian(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

/// "emnist-letters-train-" of "emnist-letters-train-images-idx3-ubyte.gz", for a kind such as "images-idx3-ubyte".
std::optional<std::string> prefix_of(std::string name, const std::string& kind) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  std::ranges::replace(name, '.', '-');
  if (!name.ends_with(kind)) return std::nullopt;
  return name.substr(0, name.size() - kind.size());
}

/// Files of a kind by prefix; of a raw and a compressed one the raw.
std::map<std::string, Path> files_of_kind(const Path& folder, const std::string& kind) {
  std::map<std::string, Path> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const Path& file = entry->path();
    const std::optional<std::string> prefix = prefix_of(file.filename().string(), kind);
    std::error_code ignored;
    if (!prefix || entry->is_directory(ignored)) continue;
    const auto [known, added] = files.emplace(*prefix, file);
    if (!added && file.extension() != ".gz") known->second = file;
  }
  if (error) throw DataError(folder.string() + ": the folder cannot be read: " + error.message());
  return files;
}

bool is_training(const std::string& prefix) { return prefix.ends_with("train-"); }
bool is_evaluation(const std::string& prefix) { return prefix.ends_with("t10k-") || prefix.ends_with("test-"); }

/// "emnist-letters-" of "emnist-letters-train-".
std::string set_of(const std::string& prefix) {
  const size_t end = prefix.find_last_of('-', prefix.size() - 2);
  return end == std::string::npos ? "" : prefix.substr(0, end + 1);
}

/// What else of IDX a magic number says.
std::string idx_kind(uint32_t magic) {
  if (magic == kLabelsMagic) return "; it holds labels: are the files of images and labels exchanged?";
  if (magic == kImagesMagic) return "; it holds images: are the files of images and labels exchanged?";
  if (magic >> 16 == 0 && (magic & 0xff) >= 1 && (magic & 0xff) <= 4)
    return "; it is an IDX file of another type or number of dimensions";
  return "; it is no IDX file, or its beginning is damaged: fetch it again";
}

std::optional<std::vector<uint8_t>> read_header(DataFile& file, size_t size, uint32_t magic, const std::string& kind,
                                                Faults& faults) {
  std::vector<uint8_t> header(std::max<size_t>(size, 512));
  // More than the header, for the guess at what else the file may be, is read from a second opening.
  header.resize(file.read(std::span(header).first(size)));
  if (header.size() == size && big_endian(header) == magic) return header;
  std::vector<uint8_t> begin(512);
  DataFile again(file.path());
  begin.resize(again.read(begin));
  const std::string foreign = guess_foreign(begin);
  if (header.size() < size && foreign.empty()) {
    faults.add(file.path().string() + ": " + std::to_string(header.size()) + " bytes, less than the " +
               std::to_string(size) + " of an IDX header; the file is cut, fetch it again");
  } else {
    const uint32_t seen = header.size() >= 4 ? big_endian(header) : 0;
    faults.add(file.path().string() + ": magic number " + std::to_string(seen) + ", expected " + std::to_string(magic) +
               " (IDX " + kind + ")" + (foreign.empty() ? idx_kind(seen) : foreign));
  }
  return std::nullopt;
}

}  // namespace

IdxParts find_idx(const Path& path) {
  std::error_code error;
  const bool folder_given = std::filesystem::is_directory(path, error);
  const Path folder = folder_given ? path : path.parent_path().empty() ? Path(".") : path.parent_path();
  std::optional<std::string> wanted;
  if (!folder_given) {
    const std::string name = path.filename().string();
    std::optional<std::string> prefix = prefix_of(name, "images-idx3-ubyte");
    if (!prefix) prefix = prefix_of(name, "labels-idx1-ubyte");
    if (!prefix) return {};
    wanted = set_of(*prefix);
  }
  const std::map<std::string, Path> images = files_of_kind(folder, "images-idx3-ubyte"),
                                    labels = files_of_kind(folder, "labels-idx1-ubyte");
  IdxParts parts;
  const auto take = [&](std::optional<IdxFiles>& part, const std::string& prefix, const Path& file) {
    const auto partner = labels.find(prefix);
    if (partner == labels.end()) {
      throw DataError(file.string() + ": there is no " + prefix +
                      "labels-idx1-ubyte (or .gz) beside it; expected the "
                      "labels of these images");
    }
    if (part) {
      throw DataError(folder.string() + ": several data sets, " + part->images.filename().string() + " and " +
                      file.filename().string() + " among them; name a file of the one that is meant with --data");
    }
    part = IdxFiles{.images = file, .labels = partner->second};
  };
  for (const auto& [prefix, file] : images) {
    if (wanted && set_of(prefix) != *wanted) continue;
    if (is_training(prefix)) take(parts.train, prefix, file);
    if (is_evaluation(prefix)) take(parts.val, prefix, file);
  }
  for (const auto& [prefix, file] : labels) {
    if (!images.contains(prefix) && (is_training(prefix) || is_evaluation(prefix)) &&
        (!wanted || set_of(prefix) == *wanted)) {
      throw DataError(file.string() + ": there is no " + prefix +
                      "images-idx3-ubyte (or .gz) beside it; expected the "
                      "images of these labels");
    }
  }
  return parts;
}

std::optional<IdxImagesHeader> read_idx_images_header(const Path& path, Faults& faults) {
  DataFile file(path);
  const auto header = read_header(file, 16, kImagesMagic, "images", faults);
  if (!header) return std::nullopt;
  const IdxImagesHeader images{.count = big_endian(std::span(*header).subspan(4)),
                               .height = big_endian(std::span(*header).subspan(8)),
                               .width = big_endian(std::span(*header).subspan(12))};
  if (images.count < 1 || images.count > kMostImages || images.height < 1 || images.height > kLargestSide ||
      images.width < 1 || images.width > kLargestSide) {
    faults.add(path.string() + ": its header says " + std::to_string(images.count) + " images of " +
               std::to_string(images.height) + " x " + std::to_string(images.width) +
               "; expected at least one image, of 1 to " + std::to_string(kLargestSide) + " pixels a side");
    return std::nullopt;
  }
  const uint64_t wanted =
      16 + static_cast<uint64_t>(images.count) * static_cast<uint64_t>(images.height * images.width);
  if (!file.compressed() && file.stored_bytes() != wanted) {
    faults.add(path.string() + ": " + std::to_string(file.stored_bytes()) + " bytes; its header (" +
               std::to_string(images.count) + " images of " + std::to_string(images.height) + " x " +
               std::to_string(images.width) + ") makes " + std::to_string(wanted) +
               "; the file is cut or padded, fetch it again");
    return std::nullopt;
  }
  if (wanted > file.most_bytes()) {
    faults.add(path.string() + ": its header (" + std::to_string(images.count) + " images of " +
               std::to_string(images.height) + " x " + std::to_string(images.width) + ") makes " +
               std::to_string(wanted) + " bytes, more than " + std::to_string(file.stored_bytes()) +
               " bytes of gzip data can hold; the file is damaged, fetch it again");
    return std::nullopt;
  }
  return images;
}

std::optional<std::vector<uint8_t>> read_idx_labels(const Path& path, Faults& faults) {
  DataFile file(path);
  const auto header = read_header(file, 8, kLabelsMagic, "labels", faults);
  if (!header) return std::nullopt;
  const uint64_t count = big_endian(std::span(*header).subspan(4));
  const uint64_t most = file.most_bytes() - 8;
  std::vector<uint8_t> labels = file.read_up_to(std::min(count, most));
  const uint64_t behind = labels.size() == count ? file.count_rest(1 << 20) : 0;
  if (labels.size() != count || behind > 0 || count == 0) {
    faults.add(path.string() + ": its header says " + std::to_string(count) + " labels and " +
               (behind > 0 ? "at least " : "") + std::to_string(labels.size() + behind) +
               " follow; expected the same number, and at least one; the file is cut or padded, fetch it again");
    return std::nullopt;
  }
  return labels;
}

std::optional<std::vector<uint8_t>> read_idx_pixels(const Path& path, const IdxImagesHeader& expected, Faults& faults) {
  const std::optional<IdxImagesHeader> header = read_idx_images_header(path, faults);
  if (!header) return std::nullopt;
  if (header->count != expected.count || header->height != expected.height || header->width != expected.width)
    throw DataError(path.string() + ": the file changed while it was read");
  DataFile file(path);
  std::array<uint8_t, 16> skipped{};
  file.read(skipped);
  const uint64_t wanted = static_cast<uint64_t>(header->count) * static_cast<uint64_t>(header->height * header->width);
  std::vector<uint8_t> pixels = file.read_up_to(wanted);
  const uint64_t behind = pixels.size() == wanted ? file.count_rest(1 << 20) : 0;
  if (pixels.size() != wanted || behind > 0) {
    faults.add(path.string() + ": its header (" + std::to_string(header->count) + " images of " +
               std::to_string(header->height) + " x " + std::to_string(header->width) + ") makes " +
               std::to_string(wanted) + " bytes of pixels, and there are " + (behind > 0 ? "at least " : "") +
               std::to_string(pixels.size() + behind) + "; the file is cut or padded, fetch it again");
    return std::nullopt;
  }
  return pixels;
}

Picture read_idx_image(const Path& path, int64_t index, int64_t channels) {
  Faults faults;
  const IdxImagesHeader header = *read_idx_images_header(path, faults);
  if (index < 0 || index >= header.count) {
    throw DataError(path.string() + ": no image " + std::to_string(index) + "; it has images 0 to " +
                    std::to_string(header.count - 1));
  }
  DataFile file(path);
  const auto size = static_cast<uint64_t>(header.height * header.width);
  const uint64_t before = 16 + static_cast<uint64_t>(index) * size;
  std::vector<uint8_t> skipped(static_cast<size_t>(std::min<uint64_t>(before, 1 << 20)));
  for (uint64_t done = 0; done < before;) {
    const auto step = static_cast<size_t>(std::min<uint64_t>(before - done, skipped.size()));
    const size_t got = file.read(std::span(skipped).first(step));
    if (got == 0) break;
    done += got;
  }
  const std::vector<uint8_t> pixels = file.read_up_to(size);
  if (pixels.size() != size)
    throw DataError(path.string() + ": the file ends before image " + std::to_string(index) + " does");
  Picture picture{.shape = {.channels = channels, .height = header.height, .width = header.width}};
  picture.pixels.reserve(static_cast<size_t>(picture.shape.size()));
  for (const uint8_t value : pixels) picture.pixels.insert(picture.pixels.end(), static_cast<size_t>(channels), value);
  return picture;
}

}  // namespace mgtrain
