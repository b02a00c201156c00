// G7 of docs/reliability.md: weight files that mean harm, given to --init and to the commands that look at checkpoints.
// Nothing in them runs, each is refused with its name and a reason, and memory is bounded by what the file holds.
// MGTEST_MUTANTS=10000 makes the large ones as large as a header may be.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "app/commands.h"
#include "base/error.h"
#include "base/printable.h"
#include "checkpoint/checksum.h"
#include "checkpoint/hostile_files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/sample_checkpoint.h"
#include "checkpoint/weights_file.h"
#include "support/catch.h"
#include "support/counted_memory.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"
#include "support/temporary_folder.h"

namespace mgtrain {
namespace {

constexpr uint64_t kAllowance = uint64_t{256} << 20;

/// Bytes of the files that are large: those of the largest header, or some that take no time.
size_t large_bytes() { return std::getenv("MGTEST_MUTANTS") != nullptr ? 100'000'000 : 2'000'000; }

/// Whether `text` can be shown: lines of text and nothing that steers a terminal.
bool is_harmless(std::string text) {
  std::erase(text, '\n');
  return printable(text) == text;
}

/// Most bytes that looking took.
template <typename Look>
uint64_t peak_of(const Look& look) {
  const test::CountedMemory memory;
  look();
  return memory.peak_bytes();
}

TEST_CASE("a hostile file given to --init is refused by name, runs nothing and takes no memory", "[checkpoint]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path canary = folder.path() / "canary";
  const ResNetSpec network = make_resnet_spec("resnet18", 8, "cifar", 3, 32, 32, 10);
  const std::vector<TensorEntry> model = state_entries(network, "F32");
  const std::vector<test::HostileFile> hostile = test::hostile_files(canary, large_bytes());
  CHECK(hostile.size() >= 50);
  uint64_t most_beyond = 0;
  for (const test::HostileFile& one : hostile) {
    INFO(one.name);
    test::MemoryFileSystem files;
    const std::filesystem::path file = "/" + one.file_name;
    uint64_t bytes = 0;
    {
      const std::string content = one.make();
      bytes = content.size();
      files.put(file, content);
    }
    // Asked for with every leave there is.
    const InitOptions options{.path = file, .reset_head = true, .allow_missing = true};
    std::string reason;
    const uint64_t peak = peak_of([&] {
      try {
        (void)fit_weights(open_weights(files, file), options, model);
      } catch (const CheckpointError& error) {
        reason = error.what();
      }
    });
    CHECK(reason.find(file.string()) != std::string::npos);
    CHECK(reason.size() < 4096);
    CHECK(is_harmless(reason));
    CHECK(peak <= 2 * bytes + kAllowance);
    most_beyond = std::max(most_beyond, peak > bytes ? peak - bytes : 0);
  }
  CHECK_FALSE(std::filesystem::exists(canary));
  if (std::getenv("MGTEST_MUTANTS") != nullptr)
    WARN(hostile.size() << " hostile files for --init, the large ones of " << large_bytes() << " bytes; at most "
                        << most_beyond << " bytes more than the file");
}

TEST_CASE("a hostile file in a checkpoint is found by verify and inspect, whatever its checksum", "[checkpoint]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path canary = folder.path() / "canary";
  HandClock clock;
  Log log{LogLevel::kOff};
  for (const test::HostileFile& one : test::hostile_files(canary, large_bytes())) {
    INFO(one.name);
    test::MemoryFileSystem files;
    uint64_t bytes = 0;
    std::filesystem::path checkpoint;
    {
      const std::string content = one.make();
      bytes = content.size();
      CheckpointStore store(files, "/run", 2);
      store.commit(10, test::sample_checkpoint(10));
      checkpoint = store.folder_of(10);
      Manifest manifest = parse_manifest(files.get(checkpoint / kManifestName));
      Xxh3 checksum;
      checksum.update(content);
      manifest["model.safetensors"] = {content.size(), checksum.hex()};
      files.put(checkpoint / "model.safetensors", content);
      files.put(checkpoint / kManifestName, render_manifest(manifest));
    }
    std::ostringstream out;
    AppContext context{files, clock, log, out};
    CommandLine line;
    line.items = {checkpoint.string()};
    const uint64_t peak = peak_of([&] {
      const ExitCode verified = run_checkpoint_verify(line, context);
      CHECK(verified == (one.readable ? ExitCode::kDone : ExitCode::kCheckpoint));
      if (one.readable) {
        CHECK(run_checkpoint_inspect(line, context) == ExitCode::kDone);
      } else {
        CHECK(out.str().find("model.safetensors: ") != std::string::npos);
        CHECK_THROWS_AS(run_checkpoint_inspect(line, context), CheckpointError);
      }
    });
    CHECK(is_harmless(out.str()));
    CHECK(peak <= 2 * bytes + kAllowance);
  }
  CHECK_FALSE(std::filesystem::exists(canary));
}

}  // namespace
}  // namespace mgtrain
