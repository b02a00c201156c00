#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "checkpoint/safetensors_header.h"

namespace mgtrain {

namespace {

constexpr uint64_t kLengthPrefix = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // as the reference implementation
constexpr char kMetadata[] = "__metadata__";

/// The reader of one file: everything it throws names the file.
class IndexReader {
 public:
  IndexReader(FileSystem& files, const std::filesystem::path& file) : files_(files), file_(file) {}

  SafetensorsIndex read() {
    const uint64_t size = files_.size(file_);
    const uint64_t header_length = read_header_length(size);
    const std::vector<std::byte> header = files_.read(file_, kLengthPrefix, header_length);
    if (header.size() != header_length) fail("ends inside its header");
    try {
      SafetensorsIndex index = parse_safetensors_header({reinterpret_cast<const char*>(header.data()), header.size()});
      place(index.tensors, kLengthPrefix + header_length, size);
      return index;
    } catch (const CheckpointError& error) {
      fail(error.what());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw CheckpointError(file_.string() + ": not a valid safetensors file: " + problem);
  }

  uint64_t read_header_length(uint64_t size) const {
    const std::vector<std::byte> prefix = files_.read(file_, 0, kLengthPrefix + 1);
    if (prefix.size() <= kLengthPrefix) fail(std::to_string(size) + " bytes are too few");
    refuse_pickle(prefix);
    uint64_t length = 0;
    for (size_t i = kLengthPrefix; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(prefix[i]);
    if (length > size - kLengthPrefix)
      fail("its header is said to be " + std::to_string(length) + " bytes long, the file has " + std::to_string(size));
    if (length > kLargestHeader)
      fail("its header of " + std::to_string(length) + " bytes is larger than " + std::to_string(kLargestHeader));
    if (prefix[kLengthPrefix] != std::byte{'{'}) fail("its header does not start with '{'");
    return length;
  }

  /// What torch.save() writes could run code when read, and is not read.
  void refuse_pickle(const std::vector<std::byte>& prefix) const {
    const bool zip = prefix[0] == std::byte{'P'} && prefix[1] == std::byte{'K'};
    const bool pickle = prefix[0] == std::byte{0x80} && prefix[1] >= std::byte{2} && prefix[1] <= std::byte{5};
    // A header may happen to have the length that these bytes spell.
    if ((zip || pickle) && prefix[kLengthPrefix] != std::byte{'{'})
      fail(
          "it looks like one of PyTorch's own (a zip or pickle file); in Python, "
          "safetensors.torch.save_file(state_dict, \"weights.safetensors\") writes one that is safe to read");
  }

  /// Puts the tensors in file order, checks that they fill the data part without overlap or hole, and turns their
  /// offsets into those of the file.
  static void place(std::vector<TensorEntry>& tensors, uint64_t data_begin, uint64_t file_size) {
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::pair(a.offset, a.length) < std::pair(b.offset, b.length);
    });
    const uint64_t data_size = file_size - data_begin;
    uint64_t end = 0;
    for (TensorEntry& tensor : tensors) {
      if (tensor.offset != end)
        throw CheckpointError("tensor " + printable(tensor.name.substr(0, 64)) +
                              (tensor.offset < end ? " overlaps the one" : " leaves a hole") +
                              " before it: it begins at byte " + std::to_string(tensor.offset) + ", not at " +
                              std::to_string(end));
      if (tensor.length > data_size - end)
        throw CheckpointError("tensor " + printable(tensor.name.substr(0, 64)) + " ends " +
                              std::to_string(tensor.length - (data_size - end)) + " bytes behind the end of the file");
      end += tensor.length;
      tensor.offset += data_begin;
    }
    if (end != data_size)
      throw CheckpointError(std::to_string(data_size - end) + " bytes behind the last tensor belong to none");
  }

  FileSystem& files_;
  const std::filesystem::path& file_;
};

std::string little_endian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

}  // namespace

uint64_t dtype_bytes(const std::string& dtype) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kSizes = {{
      {"BOOL", 1},
      {"U8", 1},
      {"I8", 1},
      {"F8_E4M3", 1},
      {"F8_E5M2", 1},
      {"I16", 2},
      {"U16", 2},
      {"F16", 2},
      {"BF16", 2},
      {"I32", 4},
      {"U32", 4},
      {"F32", 4},
      {"I64", 8},
      {"U64", 8},
      {"F64", 8},
  }};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return bytes;
  }
  throw CheckpointError("unknown dtype \"" + dtype + "\"");
}

uint64_t tensor_bytes(const std::string& dtype, const std::vector<int64_t>& shape) {
  uint64_t bytes = dtype_bytes(dtype);
  for (const int64_t size : shape) {
    if (size < 0) throw CheckpointError("negative size in the shape " + describe_tensor(dtype, shape));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes > uint64_t{1} << 62)
      throw CheckpointError("impossibly large shape " + describe_tensor(dtype, shape));
  }
  return bytes;
}

std::string describe_tensor(const std::string& dtype, const std::vector<int64_t>& shape) {
  std::string text = dtype + " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::set<std::string_view> names = {kMetadata};
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const TensorEntry& tensor : tensors) {
    if (!names.insert(tensor.name).second) throw CheckpointError("two tensors to save have the name " + tensor.name);
    const uint64_t bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!tensor.bytes.empty() && tensor.bytes.size() != bytes)
      throw CheckpointError("tensor " + printable(tensor.name.substr(0, 64)) + " to save has " +
                            std::to_string(tensor.bytes.size()) + " bytes, not the " + std::to_string(bytes) + " of " +
                            describe_tensor(tensor.dtype, tensor.shape));
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + bytes};
    // Not header[name]: looking for the key in an ordered object is a walk over all before it.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(tensor.name, std::move(entry));
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return little_endian(text.size()) + text;
}

SafetensorsIndex read_safetensors_index(FileSystem& files, const std::filesystem::path& file) {
  try {
    return IndexReader(files, file).read();
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace mgtrain
