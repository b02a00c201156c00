// The arrows of docs/architecture.md hold in src/, and a planted breach of each kind is found.
#include "structure/include_rules.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/catch.h"

namespace mgtrain::structure {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

SourceTree sources() {
  const std::filesystem::path root = std::filesystem::path(MGTRAIN_SOURCE_DIR) / "src";
  SourceTree tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const auto extension = entry.path().extension();
    if (extension == ".cpp" || extension == ".h") {
      tree[std::filesystem::relative(entry.path(), root).generic_string()] = text_of(entry.path());
    }
  }
  return tree;
}

std::set<std::string> base_sources() {
  std::ifstream list(MGTRAIN_BASE_SOURCES);
  std::set<std::string> names;
  for (std::string line; std::getline(list, line);) {
    if (!line.empty()) names.insert(line);
  }
  return names;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> faults_with(const std::string& path, const std::string& text) {
  return include_faults({{path, text},
                         {"base/error.h", ""},
                         {"config/run_config.h", "#include \"base/error.h\"\n"},
                         {"engine/trainer.h", ""},
                         {"observe/console.h", ""},
                         {"data/batch.h", "#include <ATen/core/Tensor.h>\n"}},
                        {});
}

}  // namespace

TEST_CASE("every include in src/ follows the arrows of docs/architecture.md", "[structure]") {
  const SourceTree tree = sources();
  const std::set<std::string> base = base_sources();
  REQUIRE(tree.size() > 20);
  REQUIRE(base.size() > 5);
  CHECK(joined(include_faults(tree, base)) == "");
}

TEST_CASE("an include along the arrows is no fault", "[structure]") {
  CHECK(faults_with("data/augment.cpp", "#include \"base/error.h\"\n#include <vector>\n").empty());
  CHECK(faults_with("engine/trainer.cpp", "#include \"data/batch.h\"\n").empty());
}

TEST_CASE("an include against the arrows is found, with file and line", "[structure]") {
  const auto faults = faults_with("data/augment.cpp", "#include <vector>\n#include \"engine/trainer.h\"\n");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].rfind("data/augment.cpp:2: includes engine/trainer.h; data may include", 0) == 0);
  CHECK(faults_with("model/resnet.cpp", "#include \"observe/console.h\"\n").size() == 1);
  CHECK(faults_with("base/files.cpp", "#include \"config/run_config.h\"\n").size() == 1);
  CHECK(faults_with("util/strings.cpp", "#include \"base/error.h\"\n").size() == 1);
}

TEST_CASE("CUDA named outside its files is found, in includes and in code, not in comments or strings", "[structure]") {
  CHECK(faults_with("engine/trainer.cpp", "#include <c10/cuda/CUDAStream.h>\n").size() == 1);
  CHECK(faults_with("engine/trainer.cpp", "#include <cuda_runtime_api.h>\n").size() == 1);
  CHECK(faults_with("engine/trainer.cpp", "int f() { return cudaSetDevice(0); }\n").size() == 1);
  CHECK(faults_with("data/prefetch.cpp", "auto device = at::kCUDA;\n").size() == 1);
  CHECK(faults_with("data/prefetch.cpp", "// CUDA copies\nauto text = \"at::kCUDA\"; /* kCUDA */\n").empty());
  CHECK(faults_with("devices/inventory_cuda.cpp", "#include <cuda_runtime_api.h>\n").empty());
  CHECK(faults_with("parallel/data_parallel_cuda.cpp", "#include <c10/cuda/CUDAStream.h>\n").empty());
}

TEST_CASE("a library outside its one file is found", "[structure]") {
  CHECK(faults_with("app/train.cpp", "#include <CLI/CLI.hpp>\n").size() == 1);
  CHECK(faults_with("app/cli.cpp", "#include <CLI/CLI.hpp>\n").empty());
  CHECK(faults_with("config/check.cpp", "#include <toml++/toml.h>\n").size() == 1);
  CHECK(faults_with("config/toml.cpp", "#include <toml++/toml.h>\n").empty());
  CHECK(faults_with("observe/console.cpp", "#include <spdlog/spdlog.h>\n").size() == 1);
  CHECK(faults_with("base/log.cpp", "#include <spdlog/spdlog.h>\n").empty());
}

TEST_CASE("a LibTorch header reached from a torch-free source is found, through headers too", "[structure]") {
  const SourceTree tree = {{"data/batch.h", "#include <ATen/core/Tensor.h>\n"},
                           {"data/part.h", "#include \"data/batch.h\"\n"},
                           {"data/scan.cpp", "#include \"data/part.h\"\n"}};
  CHECK(include_faults(tree, {}).empty());
  const auto faults = include_faults(tree, {"data/scan.cpp"});
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("data/scan.cpp -> data/part.h -> data/batch.h") != std::string::npos);
}

}  // namespace mgtrain::structure
