// A sample of G5 (reliability.md): seeded mutants of a small checkpoint. None is accepted, and no reader crashes (the
// sanitizers watch) or asks for more than the file holds.
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/resume.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;

const std::filesystem::path kFolder = "/run/checkpoints/step-00000010";
const char* const kFiles[] = {"model.safetensors", "state.safetensors", "run.json", "manifest.json"};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  /// A number in [0, limit), the same on every machine.
  uint64_t below(uint64_t limit) { return random_() % limit; }

  /// One change of the bytes; never none.
  std::string of_bytes(const std::string& original) {
    std::string text = original;
    while (text == original) {
      switch (below(6)) {
        case 0:
          text[below(text.size())] ^= static_cast<char>(1 << below(8));
          break;
        case 1:
          text.resize(text.size() * below(1000) / 1000);
          break;
        case 2:
          text.insert(below(text.size() + 1), std::string(1 + below(64), static_cast<char>(below(256))));
          break;
        case 3: {  // a block of zeros
          const size_t begin = below(text.size()), length = std::min<size_t>(1 + below(64), text.size() - begin);
          text.replace(begin, length, std::string(length, '\0'));
          break;
        }
        case 4: {  // two blocks change places
          const size_t length = 1 + below(text.size() / 3), one = below(text.size() / 2 - length / 2);
          const size_t other = one + length + below(text.size() - one - 2 * length + 1);
          std::swap_ranges(text.begin() + static_cast<ptrdiff_t>(one),
                           text.begin() + static_cast<ptrdiff_t>(one + length),
                           text.begin() + static_cast<ptrdiff_t>(other));
          break;
        }
        case 5:  // a lying length, or eight other bytes
          for (size_t i = 0, begin = below(2) * below(text.size() - 8); i < 8; ++i)
            text[begin + i] = static_cast<char>(below(3) == 0 ? 0xff : below(256));
          break;
      }
    }
    return text;
  }

  /// A safetensors file whose header lies; every one is wrong, whatever its checksum.
  std::string of_header(const std::string& file) {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
    const std::string data = file.substr(8 + length);
    auto header = nlohmann::ordered_json::parse(file.substr(8, length));
    auto entry = header.begin();
    while (entry.key() == "__metadata__") ++entry;
    auto& offsets = (*entry)["data_offsets"];
    auto& shape = (*entry)["shape"];
    std::string text;
    switch (below(8)) {
      case 0:
        shape[0] = shape[0].get<uint64_t>() + 1 + below(uint64_t{1} << 62);
        break;
      case 1:
        for (int i = 0; i < 3; ++i) shape.push_back(uint64_t{1} << (32 + below(31)));
        break;
      case 2:
        offsets[1] = offsets[1].get<uint64_t>() + 1 + below(1 << 20);
        break;
      case 3:
        header["copy"] = *entry;  // overlaps
        break;
      case 4:
        offsets = {offsets[1], offsets[0]};
        break;
      case 5: {  // the same name twice
        const std::string whole = header.dump();
        text = whole.substr(0, whole.size() - 1) + "," + whole.substr(1);
        break;
      }
      case 6:
        (*entry)["dtype"] = std::vector<const char*>{"F64", "U8", "f32", "", "COMPLEX"}[below(5)];
        break;
      case 7: {  // all a little later: a hole
        const uint64_t by = 1 + below(1000);
        for (auto& [name, tensor] : header.items()) {
          if (name == "__metadata__") continue;
          for (auto& offset : tensor["data_offsets"]) offset = offset.get<uint64_t>() + by;
        }
        text = with_length(header.dump()) + data + std::string(by, '\0');
        return text;
      }
    }
    if (text.empty()) text = header.dump();
    return with_length(text) + data;
  }

 private:
  static std::string with_length(const std::string& header) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
    return text + header;
  }

  std::mt19937_64 random_;
};

void commit_original(MemoryFileSystem& files) {
  CheckpointStore(files, "/run", 2).commit(10, test::sample_checkpoint(10));
  REQUIRE(checkpoint_problem(files, kFolder).empty());
}

/// Puts a file in place and corrects the manifest, as someone who means harm would.
void put_signed(MemoryFileSystem& files, const std::string& name, const std::string& content) {
  Manifest manifest = parse_manifest(files.get(kFolder / kManifestName));
  Xxh3 checksum;
  checksum.update(content);
  manifest[name] = {content.size(), checksum.hex()};
  files.put(kFolder / name, content);
  files.put(kFolder / kManifestName, render_manifest(manifest));
}

TEST_CASE("of 500 mutated checkpoints none is accepted", "[checkpoint]") {
  MemoryFileSystem files;
  commit_original(files);
  Mutator mutator(20240501);
  int accepted = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string name = kFiles[mutator.below(4)], original = files.get(kFolder / name);
    const bool safetensors = name.find(".safetensors") != std::string::npos;
    const std::string mutant =
        safetensors && mutator.below(3) == 0 ? mutator.of_header(original) : mutator.of_bytes(original);
    INFO("mutant " << i << " of " << name);
    REQUIRE(mutant != original);
    files.put(kFolder / name, mutant);
    const std::string problem = verify_checkpoint(files, kFolder);
    accepted += problem.empty();
    CHECK(problem.find(name.substr(0, name.find('.'))) != std::string::npos);
    CHECK_THROWS_AS(resume_from(files, kFolder), CheckpointError);
    files.put(kFolder / name, original);
  }
  CHECK(accepted == 0);
  CHECK(verify_checkpoint(files, kFolder).empty());
}

TEST_CASE("of 500 lying safetensors headers with corrected checksums none is accepted", "[checkpoint]") {
  MemoryFileSystem files;
  commit_original(files);
  const std::string manifest = files.get(kFolder / kManifestName);
  Mutator mutator(20240502);
  int accepted = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string name = kFiles[mutator.below(2)], original = files.get(kFolder / name);
    put_signed(files, name, mutator.of_header(original));
    INFO("mutant " << i << " of " << name << ": " << files.get(kFolder / name));
    const std::string problem = verify_checkpoint(files, kFolder);
    accepted += problem.empty();
    CHECK(problem.find(name + ": not a valid safetensors file: ") != std::string::npos);
    files.put(kFolder / name, original);
    files.put(kFolder / kManifestName, manifest);
  }
  CHECK(accepted == 0);
}

TEST_CASE("damage with a corrected checksum is refused or read, within the file", "[checkpoint]") {
  MemoryFileSystem files;
  commit_original(files);
  const std::string manifest = files.get(kFolder / kManifestName);
  Mutator mutator(20240503);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string name = kFiles[mutator.below(3)], original = files.get(kFolder / name);
    const std::string mutant = mutator.of_bytes(original);
    put_signed(files, name, mutant);
    if (checkpoint_problem(files, kFolder).empty()) {
      // Values may differ: no checksum is left to tell. Places may not.
      for (const char* tensors : {"model.safetensors", "state.safetensors"}) {
        const uint64_t size = files.size(kFolder / tensors);
        for (const TensorEntry& entry : read_safetensors_index(files, kFolder / tensors).tensors)
          CHECK((entry.offset <= size && entry.length <= size - entry.offset));
      }
    } else {
      ++refused;
    }
    files.put(kFolder / name, original);
    files.put(kFolder / kManifestName, manifest);
  }
  CHECK(refused > 250);
}

}  // namespace
}  // namespace mgtrain
