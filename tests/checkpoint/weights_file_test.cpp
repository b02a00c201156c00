#include "checkpoint/weights_file.h"

#include <functional>

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;
using test::MemoryFileSystem;

const ResNetSpec kSpec = make_resnet_spec("resnet18", 4, "cifar", 3, 32, 32, 10);

std::vector<TensorEntry> renamed(std::vector<TensorEntry> tensors, const std::string& prefix) {
  for (TensorEntry& tensor : tensors) tensor.name = prefix + tensor.name;
  return tensors;
}

void write(MemoryFileSystem& files, const std::string& file, const std::vector<TensorEntry>& tensors) {
  uint64_t bytes = 0;
  for (const TensorEntry& tensor : tensors) bytes += tensor_bytes(tensor.dtype, tensor.shape);
  files.put(file, safetensors_header(tensors, {}) + std::string(bytes, '\0'));
}

std::string open_fault(MemoryFileSystem& files, const std::string& path, const std::string& program = "") {
  try {
    open_weights(files, path, program);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "opened";
}

std::string fit_fault(const std::vector<TensorEntry>& file, const InitOptions& options,
                      const std::vector<TensorEntry>& model) {
  MemoryFileSystem files;
  write(files, "/w.safetensors", file);
  try {
    fit_weights(open_weights(files, "/w.safetensors"), options, model);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "fits";
}

std::vector<TensorEntry> without(std::vector<TensorEntry> tensors, const std::function<bool(const TensorEntry&)>& is) {
  std::erase_if(tensors, is);
  return tensors;
}

TEST_CASE("a prefix that all names carry is removed, also several, and said", "[checkpoint]") {
  const std::vector<TensorEntry> model = state_entries(kSpec, "F32");
  const std::string prefix =
      GENERATE("module.", "_orig_mod.", "model.", "module._orig_mod.", "_orig_mod.module.model.", "model.model.");
  MemoryFileSystem files;
  write(files, "/w.safetensors", renamed(model, prefix));
  const WeightsFile weights = open_weights(files, "/w.safetensors");
  CHECK(weights.prefix == prefix);
  REQUIRE(weights.tensors.size() == 122);
  const WeightsFit fit = fit_weights(weights, {}, model);
  CHECK(fit.match.fitting.size() == 122);
  CHECK(describe_weights(weights, fit) ==
        std::vector<std::string>{"--init: all 122 names of /w.safetensors carry the prefix " + prefix +
                                 ", which is removed"});
}

TEST_CASE("a prefix that one name lacks stays, and the message says which", "[checkpoint]") {
  const std::vector<TensorEntry> model = state_entries(kSpec, "F32");
  std::vector<TensorEntry> file = renamed(model, "module.");
  file.push_back({.name = "n_averaged", .dtype = "I64"});
  CHECK_THAT(fit_fault(file, {.allow_missing = true}, model),
             Contains("0 fit") && Contains("The prefix module. is removed only where all names carry it; these do not: "
                                           "n_averaged."));
  // Counters alone are no match.
  const auto is_weight = [](const TensorEntry& tensor) { return !tensor.name.ends_with("num_batches_tracked"); };
  CHECK_THAT(fit_fault(without(model, is_weight), {.allow_missing = true}, model),
             Contains("20 fit") && Contains("No weight fits"));
  // Nothing but the prefix is no name.
  MemoryFileSystem files;
  write(files, "/w.safetensors", {{.name = "module.", .dtype = "F32"}});
  CHECK(open_weights(files, "/w.safetensors").prefix.empty());
  write(files, "/w.safetensors", {});
  CHECK(open_weights(files, "/w.safetensors").prefix.empty());
}

TEST_CASE("a file that needs nothing has nothing to say", "[checkpoint]") {
  MemoryFileSystem files;
  write(files, "/w.safetensors", state_entries(kSpec, "F32"));
  const WeightsFile weights = open_weights(files, "/w.safetensors");
  CHECK(describe_weights(weights, fit_weights(weights, {}, state_entries(kSpec, "F32"))).empty());
}

TEST_CASE("PyTorch's own files are refused unread whatever their name, with the command", "[checkpoint]") {
  MemoryFileSystem files;
  const std::string name = GENERATE("/w.pt", "/w.pth", "/w.bin", "/w.safetensors", "/w");
  const std::string content = GENERATE(as<std::string>(), std::string("PK\3\4\0\0\x08\x08\0\0", 10),
                                       std::string("PK\5\6") + std::string(18, '\0'), "\x80\x02}q\x01.",
                                       "\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a", "\x80\x04\x95\x10", "\x80\x02");
  files.put(name, content + std::string(content.size() > 6 ? 100 : 0, '{'));
  const int64_t before = files.operations();
  const std::string fault = open_fault(files, name);
  CAPTURE(name, fault);
  CHECK(files.operations() - before <= 1);  // the first bytes, nothing more
  CHECK_THAT(fault, Contains("--init " + name + ": PyTorch's own format"));
  const std::string to = name == "/w.safetensors" ? "/w.safetensors.converted" : "/w.safetensors";
  CHECK(fault.ends_with("\n  scripts/pt_to_safetensors.py " + name + " " + to));
}

TEST_CASE("a header whose length begins like an archive's is no archive", "[checkpoint]") {
  MemoryFileSystem files;
  files.put("/w.safetensors", std::string("PK\3\4\0\0\0\0", 8) + "{}");
  CHECK_THAT(open_fault(files, "/w.safetensors"), Contains("not a valid safetensors file: its header is said to be"));
}

TEST_CASE("the command names the script where the program was built or installed, quoted for a shell", "[checkpoint]") {
  MemoryFileSystem files;
  CHECK(conversion_command(files, "/src/build/release/mgtrain", "a b/it's.pth") ==
        "scripts/pt_to_safetensors.py 'a b/it'\\''s.pth' 'a b/it'\\''s.safetensors'");
  files.put("/my src/scripts/pt_to_safetensors.py", "");
  CHECK(conversion_command(files, "/my src/build/release/mgtrain", "a.pth") ==
        "'/my src/scripts/pt_to_safetensors.py' a.pth a.safetensors");
  files.put("/opt/share/mgtrain/scripts/pt_to_safetensors.py", "");
  CHECK(conversion_command(files, "/opt/bin/mgtrain", "-a.pth") ==
        "/opt/share/mgtrain/scripts/pt_to_safetensors.py '-a.pth' '-a.safetensors'");
}

TEST_CASE("counters that no tensor of an old file has are not missing", "[checkpoint]") {
  const std::vector<TensorEntry> model = state_entries(kSpec, "F32");
  const auto is_counter = [](const TensorEntry& tensor) { return tensor.name.ends_with("num_batches_tracked"); };
  MemoryFileSystem files;
  write(files, "/w.safetensors", without(model, is_counter));
  const WeightsFile weights = open_weights(files, "/w.safetensors");
  const WeightsFit fit = fit_weights(weights, {}, model);
  CHECK(fit.counters.size() == 20);
  CHECK(fit.match.fitting.size() == 102);
  CHECK_THAT(describe_weights(weights, fit).at(0), Contains("no num_batches_tracked") && Contains("20 counters"));
  // Where some are there, one that lacks is a fault like any other.
  CHECK_THAT(fit_fault(without(model, [](const auto& t) { return t.name == "bn1.num_batches_tracked"; }), {}, model),
             Contains("1 missing in the file: bn1.num_batches_tracked"));
}

TEST_CASE("each fault comes with its way out", "[checkpoint]") {
  const std::vector<TensorEntry> model = state_entries(kSpec, "F32");
  CHECK_THAT(fit_fault(state_entries(make_resnet_spec("resnet18", 4, "cifar", 3, 32, 32, 100), "F32"), {}, model),
             Contains("fc.weight (file F32 [100, 32], model F32 [10, 32])") && Contains("--reset-head"));
  CHECK_THAT(fit_fault(state_entries(make_resnet_spec("resnet18", 8, "cifar", 3, 32, 32, 10), "F32"), {}, model),
             Contains("and 91 more") && Contains("--model, --width and --stem"));
  CHECK_THAT(fit_fault(state_entries(kSpec, "F64"), {.allow_missing = true}, model), Contains("train.dtype=float64"));
  CHECK_THAT(fit_fault(state_entries(make_resnet_spec("resnet34", 4, "cifar", 3, 32, 32, 10), "F32"), {}, model),
             Contains("96 not in the model: layer1.2.") && Contains("--allow-missing"));
  CHECK(fit_fault(state_entries(kSpec, "BF16"), {}, model) == "fits");
}

TEST_CASE("names by a stranger are shown cut and without control characters", "[checkpoint]") {
  const std::vector<TensorEntry> model = state_entries(kSpec, "F32");
  std::vector<TensorEntry> file = model;
  file.push_back({.name = "\x1b[2J" + std::string(4000, 'x'), .dtype = "F32"});
  const std::string fault = fit_fault(file, {}, model);
  CHECK_THAT(fault, Contains("1 not in the model: ?[2Jxxx") && Contains("xxx..."));
  CHECK(fault.find('\x1b') == std::string::npos);
  CHECK(fault.size() < 1000);
}

}  // namespace
}  // namespace mgtrain
