#include "checkpoint/tensor_file.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/weight_match.h"

namespace mgtrain {

namespace {

struct Dtype {
  at::ScalarType type;
  const char* name;
};

constexpr std::array<Dtype, 15> kDtypes = {{
    {at::kFloat, "F32"},
    {at::kDouble, "F64"},
    {at::kHalf, "F16"},
    {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},
    {at::kInt, "I32"},
    {at::kShort, "I16"},
    {at::kChar, "I8"},
    {at::kByte, "U8"},
    {at::kBool, "BOOL"},
    {at::kUInt16, "U16"},
    {at::kUInt32, "U32"},
    {at::kUInt64, "U64"},
    {at::kFloat8_e4m3fn, "F8_E4M3"},
    {at::kFloat8_e5m2, "F8_E5M2"},
}};

at::ScalarType scalar_type_of(const std::string& name) {
  for (const Dtype& dtype : kDtypes) {
    if (name == dtype.name) return dtype.type;
  }
  throw CheckpointError("unknown dtype \"" + name + "\"");
}

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

}  // namespace

std::string dtype_name(const at::Tensor& tensor) {
  for (const Dtype& dtype : kDtypes) {
    if (tensor.scalar_type() == dtype.type) return dtype.name;
  }
  throw CheckpointError(std::string("a tensor of type ") + c10::toString(tensor.scalar_type()) + " cannot be saved");
}

std::vector<TensorEntry> tensor_entries(const NamedTensors& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({.name = name, .dtype = dtype_name(tensor), .shape = tensor.sizes().vec()});
  return entries;
}

void write_safetensors(WritableFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = safetensors_header(tensor_entries(tensors), metadata);
  file.write(std::as_bytes(std::span(header.data(), header.size())));
  for (const auto& [name, tensor] : tensors) {
    // Neither call copies a tensor that is on the host and contiguous already.
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    if (host.numel() > 0) file.write(bytes_of(host));
  }
}

uint64_t safetensors_bytes(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  uint64_t bytes = safetensors_header(tensor_entries(tensors), metadata).size();
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

at::Tensor read_tensor(FileSystem& files, const std::filesystem::path& file, const TensorEntry& entry) {
  std::vector<std::byte> bytes;
  try {
    bytes = files.read(file, entry.offset, entry.length);
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
  if (bytes.size() != entry.length) throw CheckpointError(file.string() + ": ends inside the tensor " + entry.name);
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(scalar_type_of(entry.dtype)));
  if (!bytes.empty()) std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(tensor.mutable_data_ptr()));
  return tensor;
}

NamedTensors read_safetensors(FileSystem& files, const std::filesystem::path& file) {
  NamedTensors tensors;
  for (const TensorEntry& entry : read_safetensors_index(files, file).tensors)
    tensors.emplace_back(entry.name, read_tensor(files, file, entry));
  return tensors;
}

void load_strictly(const NamedTensors& from, const NamedTensors& into, const std::string& source) {
  const WeightMatch match = match_weights(tensor_entries(from), tensor_entries(into), Conversion::kNone);
  if (!match.missing.empty() || !match.extra.empty() || !match.misshapen.empty())
    throw CheckpointError(describe_mismatch(match, source));
  const at::NoGradGuard no_grad;
  const std::unordered_map<std::string, at::Tensor> sources(from.begin(), from.end());
  for (const auto& [name, target] : into) target.copy_(sources.at(name));
}

}  // namespace mgtrain
