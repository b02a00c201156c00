// The safetensors format: u64 little-endian header length, JSON {name: {dtype, shape, data_offsets}}, raw row-major
// bytes. Torch-free: tensors are named byte ranges. Readers check every length, offset, shape, dtype and overlap
// before allocating. Errors: CheckpointError naming the file and the fault.
#pragma once

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
  std::string dtype;               // "F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;   // writing: the data, contiguous row-major
  uint64_t offset = 0, length = 0;    // reading: where in the file
};

/// Bytes of one element; throws CheckpointError for a dtype that is not known.
uint64_t dtype_bytes(const std::string& dtype);

/// The header (length prefix included, padded with spaces to a multiple of 8), to be followed by the tensors' bytes
/// in order. Names must be unique.
std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata);

struct SafetensorsIndex {
  std::vector<TensorEntry> tensors;              // in file order; offset and length set, bytes empty
  std::map<std::string, std::string> metadata;
};
SafetensorsIndex read_safetensors_index(FileSystem& files, const std::filesystem::path& file);

}  // namespace mgtrain
