#include "checkpoint/tensor_file.h"

#include <ATen/core/grad_mode.h>

#include <cerrno>

#include "base/error.h"
#include "checkpoint/resnet_tensors.h"
#include "checkpoint/safetensors.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;
using test::MemoryFileSystem;

uint64_t write(MemoryFileSystem& files, const NamedTensors& tensors) {
  const auto file = files.create("/w.safetensors");
  write_safetensors(*file, tensors, {{"format", "pt"}});
  file->close();
  return files.size("/w.safetensors");
}

TEST_CASE("tensors of every type come back bit for bit", "[checkpoint]") {
  MemoryFileSystem files;
  NamedTensors tensors;
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                    at::kChar, at::kByte, at::kBool})
    tensors.emplace_back(c10::toString(type), at::arange(6, at::kFloat).sub(3).reshape({2, 3}).to(type));
  tensors.emplace_back("scalar", at::scalar_tensor(int64_t{1} << 40, at::kLong));
  tensors.emplace_back("empty", at::empty({0, 3}));
  CHECK(write(files, tensors) == safetensors_bytes(tensors, {{"format", "pt"}}));
  const NamedTensors back = read_safetensors(files, "/w.safetensors");
  REQUIRE(back.size() == tensors.size());
  // In file order; an empty tensor has no place of its own there.
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::find_if(back.begin(), back.end(), [&](const auto& other) { return other.first == name; });
    INFO(name);
    REQUIRE(found != back.end());
    CHECK(found->second.scalar_type() == tensor.scalar_type());
    CHECK(at::equal(found->second, tensor));
    CHECK(found->second.is_contiguous());
  }
}

TEST_CASE("values that are not numbers keep their bits", "[checkpoint]") {
  MemoryFileSystem files;
  const at::Tensor bits = at::tensor({0x7fc00001, static_cast<int32_t>(0x80000000), 0x7f800000, 1}, at::kInt);
  write(files, {{"x", bits.view(at::kFloat)}});
  CHECK(at::equal(read_safetensors(files, "/w.safetensors")[0].second.view(at::kInt), bits));
}

TEST_CASE("views, strides and parameters are written as their values", "[checkpoint]") {
  MemoryFileSystem files;
  const at::Tensor flat = at::arange(48, at::kFloat);
  const at::Tensor parameter = at::arange(5, at::kFloat).set_requires_grad(true);
  const NamedTensors tensors = {{"nhwc", flat.reshape({2, 3, 4, 2}).contiguous(at::MemoryFormat::ChannelsLast)},
                                {"slice", flat.slice(0, 7, 40, 3)},
                                {"transposed", flat.reshape({6, 8}).t()},
                                {"expanded", flat[3].expand({4})},
                                {"parameter", parameter}};
  write(files, tensors);
  CHECK(test::same_tensors(read_safetensors(files, "/w.safetensors"), tensors));
}

TEST_CASE("a type that safetensors has not is refused", "[checkpoint]") {
  MemoryFileSystem files;
  CHECK_THROWS_WITH(write(files, {{"x", at::zeros({2}, at::kComplexFloat)}}), Contains("ComplexFloat cannot be saved"));
}

TEST_CASE("a file that ends early or cannot be read is a CheckpointError", "[checkpoint]") {
  MemoryFileSystem files;
  write(files, {{"a", at::ones({8})}, {"b", at::ones({8})}});
  const std::string whole = files.get("/w.safetensors");
  files.put("/w.safetensors", whole.substr(0, whole.size() - 1));
  CHECK_THROWS_AS(read_safetensors(files, "/w.safetensors"), CheckpointError);
  CHECK_THROWS_AS(read_safetensors(files, "/none"), CheckpointError);
  files.put("/w.safetensors", whole);
  files.fail_operation(4, EIO);  // size, prefix and header come first
  CHECK_THROWS_WITH(read_safetensors(files, "/w.safetensors"), Contains("Input/output error"));
}

TEST_CASE("loading writes into the tensors that are there", "[checkpoint]") {
  const at::Tensor flat = at::zeros({100});
  const at::Tensor parameter =
      at::zeros({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  const NamedTensors into = {
      {"view", flat.slice(0, 10, 14)}, {"nhwc", parameter}, {"count", at::scalar_tensor(int64_t{0}, at::kLong)}};
  const NamedTensors from = {{"count", at::scalar_tensor(int64_t{41}, at::kLong)},
                             {"nhwc", at::arange(96, at::kFloat).reshape({2, 3, 4, 4})},
                             {"view", at::ones({4})}};
  load_strictly(from, into, "w.safetensors");
  CHECK(flat.sum().item<float>() == 4);
  CHECK(flat[10].item<float>() == 1);
  CHECK(at::equal(parameter, from[1].second));
  CHECK(parameter.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(parameter.is_leaf());
  CHECK(parameter.requires_grad());
  CHECK(into[2].second.item<int64_t>() == 41);
}

TEST_CASE("what does not fit is named with counts, and nothing is loaded", "[checkpoint]") {
  const auto fault = [](const NamedTensors& from, const NamedTensors& into) {
    const NamedTensors before = test::cloned(into);
    try {
      load_strictly(from, into, "runs/a/best/model.safetensors");
    } catch (const CheckpointError& error) {
      CHECK(test::same_tensors(into, before));
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  const NamedTensors model = {{"a", at::zeros({2})}, {"b", at::zeros({3, 1})}};
  CHECK(fault({{"a", at::ones({2})}, {"b", at::ones({3, 1})}}, model) == "loaded");
  CHECK(fault({{"a", at::ones({2})}}, model) ==
        "runs/a/best/model.safetensors does not fit the model: of its 1 tensors and the model's 2, 1 fit; 1 missing in "
        "the file: b");
  CHECK(fault({{"a", at::ones({2})}, {"b", at::ones({1, 3})}, {"c", at::ones({1})}}, model) ==
        "runs/a/best/model.safetensors does not fit the model: of its 3 tensors and the model's 2, 1 fit; 1 of another "
        "shape or type: b (file F32 [1, 3], model F32 [3, 1]); 1 not in the model: c");
  CHECK_THAT(fault({{"a", at::ones({2}, at::kDouble)}, {"b", at::ones({3, 1})}}, model),
             Contains("a (file F64 [2], model F32 [2])"));

  NamedTensors many = model;
  for (int i = 0; i < 25; ++i) many.emplace_back("layer" + std::to_string(i), at::zeros({1}));
  CHECK_THAT(fault(model, many),
             Contains("25 missing in the file: layer0, ") && Contains("layer9 and 15 more") && !Contains("layer10"));
}

}  // namespace
}  // namespace mgtrain
