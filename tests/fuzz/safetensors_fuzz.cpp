// safetensors: the bytes as a whole file, and as the JSON of a header whose length and data are put right. What is
// taken must name each byte of the data once, and come back the same from our own writer.
#include "checkpoint/safetensors.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/weights_file.h"
#include "fuzz/fuzz.h"
#include "support/memory_file_system.h"

using namespace mgtrain;

namespace {

constexpr uint64_t kMostData = uint64_t{1} << 16;

/// That of a network of two layers.
std::vector<TensorEntry> model() {
  return {{.name = "conv1.weight", .dtype = "F32", .shape = {4, 3, 3, 3}},
          {.name = "bn1.num_batches_tracked", .dtype = "I64"},
          {.name = "fc.weight", .dtype = "F32", .shape = {10, 4}},
          {.name = "fc.bias", .dtype = "F32", .shape = {10}}};
}

void check_index(const SafetensorsIndex& index, uint64_t size) {
  uint64_t end = index.tensors.empty() ? size : index.tensors.front().offset;
  for (const TensorEntry& tensor : index.tensors) {
    fuzz::demand(tensor.offset == end && tensor.length <= size - end, "tensors lie one behind the other in the file");
    fuzz::demand(tensor.length == tensor_bytes(tensor.dtype, tensor.shape), "a tensor has the bytes of its shape");
    end += tensor.length;
    fuzz::touch(std::string_view(tensor.name));
    fuzz::touch(std::string_view(describe_tensor(tensor.dtype, tensor.shape)));
  }
  fuzz::demand(end == size, "the tensors fill the file");
}

/// Written again and read again.
void check_round_trip(test::MemoryFileSystem& files, const SafetensorsIndex& index) {
  const std::string header = safetensors_header(index.tensors, index.metadata);
  uint64_t data = 0;
  for (const TensorEntry& tensor : index.tensors) data += tensor.length;
  if (data > kMostData) return;
  files.put("/again.safetensors", header + std::string(data, '\0'));
  const SafetensorsIndex again = read_safetensors_index(files, "/again.safetensors");
  fuzz::demand(again.metadata == index.metadata && again.tensors.size() == index.tensors.size(),
               "what is written again is the same");
  for (size_t i = 0; i < again.tensors.size(); ++i) {
    const TensorEntry &one = index.tensors[i], &other = again.tensors[i];
    fuzz::demand(
        one.name == other.name && one.dtype == other.dtype && one.shape == other.shape && one.length == other.length,
        "a tensor that is written again is the same");
  }
}

void read_file(const std::string& bytes) {
  test::MemoryFileSystem files;
  files.put("/a.safetensors", bytes);
  try {
    const SafetensorsIndex index = read_safetensors_index(files, "/a.safetensors");
    check_index(index, bytes.size());
    check_round_trip(files, index);
  } catch (const CheckpointError& error) {
    fuzz::touch(std::string_view(error.what()));
  }
  for (const bool lenient : {false, true}) {
    try {
      const WeightsFile weights = open_weights(files, "/a.safetensors");
      const WeightsFit fit =
          fit_weights(weights, {.path = "/a.safetensors", .reset_head = lenient, .allow_missing = lenient}, model());
      for (const std::string& line : describe_weights(weights, fit)) fuzz::touch(std::string_view(line));
    } catch (const CheckpointError& error) {
      fuzz::touch(std::string_view(error.what()));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = fuzz::text_of(data, size);
  read_file(text);
  try {
    uint64_t end = 0;
    for (const TensorEntry& tensor : parse_safetensors_header(text).tensors)
      end = std::max(end, tensor.offset > kMostData ? kMostData : tensor.offset + std::min(tensor.length, kMostData));
    std::string file;
    for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<uint64_t>(size) >> (8 * i));
    read_file(file + text + std::string(end, '\1'));
  } catch (const CheckpointError& error) {
    fuzz::touch(std::string_view(error.what()));
  }
  return 0;
}
