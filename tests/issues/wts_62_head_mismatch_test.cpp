// known_faults.md, row 62: fc.weight [1000, ...] does not fit 10 classes.
#include "base/error.h"
#include "checkpoint/load_weights.h"
#include "checkpoint/resnet_tensors.h"
#include "checkpoint/tensor_file.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

const std::vector<std::string> kHead = {"fc.weight", "fc.bias"};

/// Weights of a net of 1000 classes in a file, and a model of `classes`.
struct Heads {
  test::MemoryFileSystem files;
  NamedTensors saved, model, before;

  explicit Heads(int64_t classes, int64_t channels = 3, at::ScalarType model_type = at::kFloat) {
    saved = test::resnet_tensors(make_resnet_spec("resnet18", 4, "imagenet", 3, 224, 224, 1000), 1);
    model = test::resnet_tensors(make_resnet_spec("resnet18", 4, "imagenet", channels, 224, 224, classes), 1000);
    for (auto& [name, tensor] : model) {
      if (tensor.is_floating_point()) tensor = tensor.to(model_type);
    }
    before = test::cloned(model);
    write(saved);
  }
  void write(const NamedTensors& tensors) {
    const auto file = files.create("/w.safetensors");
    write_safetensors(*file, tensors, {});
    file->close();
  }
  LoadedWeights load(bool reset_head) {
    return load_weights(files, {.path = "/w.safetensors", .reset_head = reset_head}, model);
  }
};

TEST_CASE("a head of another size is an error that names it and --reset-head", "[issues]") {
  Heads heads(10);
  CHECK_THROWS_WITH(heads.load(false), Contains("120 fit; 2 of another shape or type: fc.weight (file F32 [1000, 32], "
                                                "model F32 [10, 32]), fc.bias (file F32 [1000], model F32 [10])") &&
                                           Contains("--reset-head"));
  CHECK(test::same_tensors(heads.model, heads.before));
}

TEST_CASE("with --reset-head only fc is new, and is listed", "[issues]") {
  const int64_t classes = GENERATE(10, 1000);  // also where the file's would fit
  Heads heads(classes);
  const LoadedWeights loaded = heads.load(true);
  CHECK(loaded.loaded == 120);
  CHECK(loaded.fresh == kHead);
  CHECK(loaded.ignored.empty());
  for (size_t i = 0; i < heads.model.size(); ++i) {
    const auto& [name, tensor] = heads.model[i];
    const bool in_head = name == "fc.weight" || name == "fc.bias";
    INFO(name);
    CHECK(at::equal(tensor, in_head ? heads.before[i].second : heads.saved[i].second));
  }
}

TEST_CASE("--reset-head serves a file that has no head", "[issues]") {
  Heads heads(10);
  NamedTensors body = heads.saved;
  body.erase(body.end() - 2, body.end());
  heads.write(body);
  CHECK(heads.load(true).fresh == kHead);
}

TEST_CASE("--reset-head does not excuse another mismatch", "[issues]") {
  Heads heads(10, 1);
  CHECK_THROWS_WITH(heads.load(true), Contains("conv1.weight (file F32 [4, 3, 7, 7], model F32 [4, 1, 7, 7])") &&
                                          !Contains("--reset-head"));
}

TEST_CASE("weights of fp32 start a run in fp64, and not the reverse", "[issues]") {
  Heads heads(1000, 3, at::kDouble);
  CHECK(heads.load(false).loaded == 122);
  CHECK(at::equal(heads.model[0].second, heads.saved[0].second.to(at::kDouble)));

  Heads narrower(1000);
  heads.write(heads.model);
  CHECK_THROWS_WITH(load_weights(heads.files, {.path = "/w.safetensors"}, narrower.model),
                    Contains("(file F64 [4, 3, 7, 7], model F32 [4, 3, 7, 7])"));
}

}  // namespace
}  // namespace mgtrain
