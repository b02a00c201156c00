// Tensors to and from safetensors files, and into the tensors of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/safetensors.h"
#include "optim/optimizer.h"

namespace mgtrain {

/// A safetensors file of tensors: any device, any strides; written contiguous, a tensor at a time.
void write_safetensors(WritableFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);
/// Bytes that write_safetensors will write.
uint64_t safetensors_bytes(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata);
/// "F32"; throws CheckpointError for a dtype that safetensors has not.
std::string dtype_name(const at::Tensor& tensor);
/// Names, types and shapes, without the bytes.
std::vector<TensorEntry> tensor_entries(const NamedTensors& tensors);
/// One tensor of a file, as its index has it, on the CPU, contiguous. Throws CheckpointError.
at::Tensor read_tensor(FileSystem& files, const std::filesystem::path& file, const TensorEntry& entry);
/// All tensors of a file, on the CPU, contiguous. Throws CheckpointError.
NamedTensors read_safetensors(FileSystem& files, const std::filesystem::path& file);

/// Copies `from` into `into` (same names, shapes, dtypes; a float conversion F32<->F64 is refused), in place: strides,
/// device and requires_grad of `into` stay. Throws CheckpointError with counts and up to 10 names of missing, extra
/// and misshapen tensors, and nothing is copied then. `source`: for the message.
void load_strictly(const NamedTensors& from, const NamedTensors& into, const std::string& source);

}  // namespace mgtrain
