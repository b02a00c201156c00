// known_faults.md, row 60: a "pretrained" model is random, since no name matched and nobody said so.
#include "base/error.h"
#include "checkpoint/load_weights.h"
#include "checkpoint/resnet_tensors.h"
#include "checkpoint/sample_checkpoint.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/tensor_file.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

struct Weights {
  test::MemoryFileSystem files;
  ResNetSpec spec = make_resnet_spec("resnet18", 4, "cifar", 1, 28, 28, 10);
  NamedTensors saved = test::resnet_tensors(spec, 1);
  NamedTensors model = test::resnet_tensors(spec, 1000);
  const NamedTensors before = test::cloned(model);

  void write(const NamedTensors& tensors) {
    const auto file = files.create("/w.safetensors");
    write_safetensors(*file, tensors, {});
    file->close();
  }
  std::string fault(const InitOptions& options) {
    try {
      load_weights(files, options, model);
    } catch (const CheckpointError& error) {
      CHECK(test::same_tensors(model, before));
      return error.what();
    }
    return "loaded";
  }
};

TEST_CASE("a file with all tensors is loaded whole", "[issues]") {
  Weights w;
  w.write(w.saved);
  const LoadedWeights loaded = load_weights(w.files, {.path = "/w.safetensors"}, w.model);
  CHECK(loaded.loaded == 122);
  CHECK(loaded.fresh.empty());
  CHECK(loaded.ignored.empty());
  CHECK(test::same_tensors(w.model, w.saved));
}

TEST_CASE("a file without a matching name is always an error", "[issues]") {
  Weights w;
  NamedTensors renamed;
  for (const auto& [name, tensor] : w.saved) renamed.emplace_back("encoder." + name, tensor);
  w.write(renamed);
  const bool allow_missing = GENERATE(false, true);
  CHECK_THAT(w.fault({.path = "/w.safetensors", .allow_missing = allow_missing}),
             Contains("of its 122 tensors and the model's 122, 0 fit; 122 missing in the file: conv1.weight, ") &&
                 Contains("and 112 more") && Contains("122 not in the model: encoder.conv1.weight") &&
                 Contains("No weight fits"));
  w.write({});
  CHECK_THAT(w.fault({.path = "/w.safetensors", .allow_missing = allow_missing}), Contains("0 fit"));
}

TEST_CASE("names as wrappers prefix them are the model's", "[issues]") {
  Weights w;
  const std::string prefix = GENERATE("module.", "_orig_mod.", "model.", "module._orig_mod.");
  NamedTensors renamed;
  for (const auto& [name, tensor] : w.saved) renamed.emplace_back(prefix + name, tensor);
  w.write(renamed);
  const LoadedWeights loaded = load_weights(w.files, {.path = "/w.safetensors"}, w.model);
  CHECK(loaded.prefix == prefix);
  CHECK(loaded.loaded == 122);
  CHECK(test::same_tensors(w.model, w.saved));
}

TEST_CASE("a file without batch counters is whole, and they start at 0", "[issues]") {
  Weights w;
  NamedTensors old = w.saved;
  std::erase_if(old, [](const auto& named) { return named.first.ends_with("num_batches_tracked"); });
  w.write(old);
  const LoadedWeights loaded = load_weights(w.files, {.path = "/w.safetensors"}, w.model);
  CHECK(loaded.loaded == 102);
  CHECK(loaded.fresh.empty());
  for (size_t i = 0; i < w.model.size(); ++i) {
    INFO(w.model[i].first);
    const bool counter = w.model[i].first.ends_with("num_batches_tracked");
    CHECK(at::equal(w.model[i].second, counter ? at::scalar_tensor(0, at::kLong) : w.saved[i].second));
  }
}

TEST_CASE("a file with all but one name is an error unless --allow-missing", "[issues]") {
  Weights w;
  NamedTensors fewer = w.saved;
  fewer.erase(fewer.begin() + 5);
  w.write(fewer);
  const std::string name = w.saved[5].first;
  CHECK_THAT(w.fault({.path = "/w.safetensors"}),
             Contains("121 fit; 1 missing in the file: " + name) && Contains("--allow-missing"));

  const LoadedWeights loaded = load_weights(w.files, {.path = "/w.safetensors", .allow_missing = true}, w.model);
  CHECK(loaded.loaded == 121);
  CHECK(loaded.fresh == std::vector<std::string>{name});
  CHECK(at::equal(w.model[5].second, w.before[5].second));
  CHECK(at::equal(w.model[6].second, w.saved[6].second));
}

TEST_CASE("a file with some names is an error unless --allow-missing, and then says what is ignored", "[issues]") {
  Weights w;
  NamedTensors some(w.saved.begin(), w.saved.begin() + 20);
  some.emplace_back("decoder.weight", at::zeros({3}));
  w.write(some);
  CHECK_THAT(w.fault({.path = "/w.safetensors"}),
             Contains("of its 21 tensors and the model's 122, 20 fit; 102 missing") && Contains("1 not in the model: "
                                                                                                "decoder.weight"));
  const LoadedWeights loaded = load_weights(w.files, {.path = "/w.safetensors", .allow_missing = true}, w.model);
  CHECK(loaded.loaded == 20);
  CHECK(loaded.fresh.size() == 102);
  CHECK(loaded.ignored == std::vector<std::string>{"decoder.weight"});
}

TEST_CASE("weights come from a checkpoint or a run as well", "[issues]") {
  Weights w;
  CheckpointStore store(w.files, "/run", 2);
  Snapshot snapshot{.record = test::sample_record(1), .model = w.saved};
  store.commit(1, checkpoint_files(snapshot));
  const std::string path = GENERATE("/run", "/run/checkpoints/step-00000001");
  CHECK(load_weights(w.files, {.path = path}, w.model).file == "/run/checkpoints/step-00000001/model.safetensors");
  CHECK(test::same_tensors(w.model, w.saved));
}

TEST_CASE("a damaged checkpoint, a missing path and a pickle are no weights", "[issues]") {
  Weights w;
  CHECK_THAT(w.fault({.path = "/none"}), Contains("--init /none: no such file or folder; expected"));
  w.files.put("/w.pth", "PK\3\4" + std::string(50, 'x'));
  CHECK_THAT(w.fault({.path = "/w.pth"}),
             Contains("not read") && Contains("scripts/pt_to_safetensors.py /w.pth /w.safetensors"));
  CheckpointStore store(w.files, "/run", 2);
  Snapshot snapshot{.record = test::sample_record(1), .model = w.saved};
  store.commit(1, checkpoint_files(snapshot));
  w.files.put("/run/checkpoints/step-00000001/run.json", "x");
  CHECK_THAT(w.fault({.path = "/run/checkpoints/step-00000001"}), Contains("not a valid checkpoint"));
}

}  // namespace
}  // namespace mgtrain
