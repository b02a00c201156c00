// G5 of docs/reliability.md: seeded mutants of a small checkpoint. None is accepted, no reader crashes (the sanitizers
// watch), asks for much more memory than the file holds, or works on and on. MGTEST_MUTANTS=10000: how many of each of
// the three ways, instead of 500.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/resume.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"
#include "support/counted_memory.h"
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

  /// The ways in which of_bytes() damages a file.
  static constexpr int kWays = 7;

  /// The mutant of number `i`: one change of the bytes, never none. Ways take turns; of the cuts one is at each 0.1 %.
  std::string of_bytes(const std::string& original, uint64_t i) {
    std::string text = original;
    for (uint64_t way = i % kWays; text == original; way = below(kWays)) {
      switch (way) {
        case 0:
          text[below(text.size())] ^= static_cast<char>(1 << below(8));
          break;
        case 1:
          text.resize(text.size() * (i / kWays % 1000) / 1000);
          break;
        case 2:
          text.insert(below(text.size() + 1), std::string(1 + below(64), static_cast<char>(below(256))));
          break;
        case 3: {  // a block of zeros
          const size_t begin = below(text.size()), length = std::min<size_t>(1 + below(512), text.size() - begin);
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
          for (size_t at = 0, begin = below(2) * below(text.size() - 8); at < 8; ++at)
            text[begin + at] = static_cast<char>(below(3) == 0 ? 0xff : below(256));
          break;
        case 6: {  // a part of the file once more
          const size_t begin = below(text.size()), length = std::min<size_t>(1 + below(512), text.size() - begin);
          text.insert(begin, text.substr(begin, length));
          break;
        }
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

/// Some kilobytes, so that each 0.1 % is another place.
void commit_original(MemoryFileSystem& files) {
  std::vector<CheckpointFile> checkpoint = test::sample_checkpoint(10);
  checkpoint[0] = test::sample_file(
      "model.safetensors", test::sample_safetensors({{"conv1.weight", 600}, {"fc.bias", 10}, {"fc.weight", 640}}, 1));
  checkpoint[1] = test::sample_file(
      "state.safetensors",
      test::sample_safetensors({{"optimizer.momentum.conv1.weight", 600}, {"optimizer.momentum.fc.weight", 640}}, 2));
  CheckpointStore(files, "/run", 2).commit(10, checkpoint);
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

uint64_t num_mutants() {
  const char* wanted = std::getenv("MGTEST_MUTANTS");
  return wanted == nullptr ? 500 : std::strtoull(wanted, nullptr, 10);
}

/// The largest that one mutant took of what is bounded.
class Limits {
 public:
  /// `look` reads a checkpoint whose damaged file has `file_bytes`.
  template <typename Look>
  auto watch(MemoryFileSystem& files, uint64_t file_bytes, const Look& look) {
    const int64_t operations_before = files.operations();
    const test::CountedMemory memory;
    const auto seen = look();
    peak_ = std::max(peak_, memory.peak_bytes());
    operations_ = std::max(operations_, files.operations() - operations_before);
    allocations_ = std::max(allocations_, memory.allocations());
    CHECK(memory.peak_bytes() <= 2 * file_bytes + (uint64_t{256} << 20));
    return seen;
  }

  /// No reader hung: none did more than a look at a few files takes. In work, not in time, which depends on the
  /// machine.
  void check(const std::string& what) const {
    CHECK(operations_ <= 200);
    CHECK(allocations_ <= 20'000);
    if (std::getenv("MGTEST_MUTANTS") != nullptr)
      WARN(num_mutants() << " " << what << "; at most " << peak_ << " bytes, " << operations_ << " file operations and "
                         << allocations_ << " allocations for one");
  }

 private:
  uint64_t peak_ = 0, allocations_ = 0;
  int64_t operations_ = 0;
};

TEST_CASE("of mutated checkpoints none is accepted", "[checkpoint]") {
  MemoryFileSystem files;
  commit_original(files);
  Mutator mutator(20240501);
  Limits limits;
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < num_mutants(); ++i) {
    const std::string name = kFiles[mutator.below(4)], original = files.get(kFolder / name);
    const bool safetensors = name.find(".safetensors") != std::string::npos;
    const std::string mutant =
        safetensors && mutator.below(3) == 0 ? mutator.of_header(original) : mutator.of_bytes(original, i);
    INFO("mutant " << i << " of " << name);
    REQUIRE(mutant != original);
    files.put(kFolder / name, mutant);
    const std::string problem = limits.watch(files, mutant.size(), [&] { return verify_checkpoint(files, kFolder); });
    accepted += problem.empty() ? 1 : 0;
    CHECK(problem.find(name.substr(0, name.find('.'))) != std::string::npos);
    CHECK_THROWS_AS(resume_from(files, kFolder), CheckpointError);
    files.put(kFolder / name, original);
  }
  CHECK(accepted == 0);
  CHECK(verify_checkpoint(files, kFolder).empty());
  limits.check("mutants, " + std::to_string(accepted) + " accepted");
}

TEST_CASE("of lying safetensors headers with corrected checksums none is accepted", "[checkpoint]") {
  MemoryFileSystem files;
  commit_original(files);
  const std::string manifest = files.get(kFolder / kManifestName);
  Mutator mutator(20240502);
  Limits limits;
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < num_mutants(); ++i) {
    const std::string name = kFiles[mutator.below(2)], original = files.get(kFolder / name);
    put_signed(files, name, mutator.of_header(original));
    INFO("mutant " << i << " of " << name << ": " << files.get(kFolder / name).substr(0, 600));
    const std::string problem =
        limits.watch(files, files.size(kFolder / name), [&] { return verify_checkpoint(files, kFolder); });
    accepted += problem.empty() ? 1 : 0;
    CHECK(problem.find(name + ": not a valid safetensors file: ") != std::string::npos);
    files.put(kFolder / name, original);
    files.put(kFolder / kManifestName, manifest);
  }
  CHECK(accepted == 0);
  limits.check("lying headers with corrected checksums, " + std::to_string(accepted) + " accepted");
}

TEST_CASE("damage with a corrected checksum is refused or read, within the file", "[checkpoint]") {
  MemoryFileSystem files;
  commit_original(files);
  const std::string manifest = files.get(kFolder / kManifestName);
  Mutator mutator(20240503);
  Limits limits;
  uint64_t refused = 0;
  for (uint64_t i = 0; i < num_mutants(); ++i) {
    const std::string name = kFiles[mutator.below(3)], original = files.get(kFolder / name);
    const std::string mutant = mutator.of_bytes(original, i);
    put_signed(files, name, mutant);
    const std::string problem = limits.watch(files, mutant.size(), [&] { return checkpoint_problem(files, kFolder); });
    if (problem.empty()) {
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
  CHECK(refused > num_mutants() / 2);
  limits.check("damaged files with corrected checksums, " + std::to_string(refused) +
               " refused, the others of the same form with other values");
}

}  // namespace
}  // namespace mgtrain
