// The safetensors format (huggingface.co/docs/safetensors): u64 little-endian header length, JSON {name: {dtype, shape,
// data_offsets}}, raw row-major bytes. Torch-free: tensors are named byte ranges. Readers check every length, offset,
// shape, dtype and overlap before allocating. Errors: CheckpointError naming the file and the fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace mgtrain {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // writing: the data, contiguous row-major; may be left out for the header
  uint64_t offset = 0, length = 0;   // reading: where in the file
};

/// Bytes of one element; throws CheckpointError for a dtype that is not known.
uint64_t dtype_bytes(const std::string& dtype);
/// Bytes of the data of a tensor; throws CheckpointError for an unknown dtype, a negative size or an overflow.
uint64_t tensor_bytes(const std::string& dtype, const std::vector<int64_t>& shape);
/// "F32 [64, 3, 7, 7]".
std::string describe_tensor(const std::string& dtype, const std::vector<int64_t>& shape);

/// The header (length prefix included, padded with spaces to a multiple of 8), to be followed by the tensors' bytes
/// in order. Names must be unique.
std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata);

struct SafetensorsIndex {
  std::vector<TensorEntry> tensors;  // in file order; offset and length set, bytes empty
  std::map<std::string, std::string> metadata;
};
/// Reads the header alone. Memory: at most the header (capped at 100 MB), its tensors' entries (at most 100,000) and
/// its metadata (at most 10,000).
SafetensorsIndex read_safetensors_index(FileSystem& files, const std::filesystem::path& file);

}  // namespace mgtrain
