#include "checkpoint/store.h"

#include <cerrno>

#include "base/error.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"
#include "support/memory_file_system.h"
#include "support/temporary_folder.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;
using test::MemoryFileSystem;
using test::sample_checkpoint;

const std::filesystem::path kRun = "/runs/a";

std::vector<std::string> names_of(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> names;
  for (const auto& folder : folders) names.push_back(folder.filename().string());
  return names;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const OutputError& error) {
    return error.what();
  }
  return "no OutputError";
}

/// No temporary or set-aside folder in the run.
bool is_tidy(const MemoryFileSystem& files) {
  for (const std::string& path : files.tree(kRun)) {
    if (path.find(".tmp-") != std::string::npos || path.find(".old-") != std::string::npos) return false;
  }
  return true;
}

TEST_CASE("a committed checkpoint is whole, and its bytes are counted", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  const uint64_t bytes = store.commit(10, sample_checkpoint(10));
  CHECK(files.tree("/runs/a") == std::vector<std::string>{"checkpoints/step-00000010/manifest.json",
                                                          "checkpoints/step-00000010/model.safetensors",
                                                          "checkpoints/step-00000010/run.json",
                                                          "checkpoints/step-00000010/state.safetensors"});
  uint64_t on_disk = 0;
  for (const std::string& name : files.list(store.folder_of(10))) on_disk += files.size(store.folder_of(10) / name);
  CHECK(bytes == on_disk);
  CHECK(verify_checkpoint(files, store.folder_of(10)).empty());
}

TEST_CASE("the newest checkpoints are kept, the older ones removed", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  for (const int64_t step : {100, 9, 20, 123456789}) {
    store.commit(step, sample_checkpoint(step));
    if (step == 100) CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000100"});
    // A step that follows a newer one: the run went back, and what is newer is no longer its past.
    if (step == 9) CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000009"});
    if (step == 20) CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000020", "step-00000009"});
  }
  CHECK(names_of(store.list()) == std::vector<std::string>{"step-123456789", "step-00000020"});
  CHECK(is_tidy(files));
}

TEST_CASE("only folders named as a step are checkpoints", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  for (const char* name : {"step-00000030/x", "step-30/x", "step-000000030/x", "step-0000003a/x", "step-/x", "other/x",
                           ".tmp-step-00000040/x", "step-00000050", "step-99999999999999999999/x"})
    files.put(kRun / "checkpoints" / name, "");
  CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000030"});
  CHECK(step_of_folder_name(step_folder_name(0)) == 0);
  CHECK(step_of_folder_name(step_folder_name(1234567890123)) == 1234567890123);
  CHECK(CheckpointStore(files, "/none", 2).list().empty());
}

TEST_CASE("a step saved again replaces the former checkpoint", "[checkpoint]") {
  MemoryFileSystem files;
  files.set_exchange(GENERATE(true, false));
  CheckpointStore store(files, kRun, 2);
  store.commit(10, sample_checkpoint(10, 1));
  store.commit(10, sample_checkpoint(10, 2));
  CHECK(verify_checkpoint(files, store.folder_of(10)).empty());
  CHECK(files.get(store.folder_of(10) / "model.safetensors").back() == 2);
  CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000010"});
  CHECK(is_tidy(files));
}

TEST_CASE("best is the committed checkpoint by hard links, beyond keep", "[checkpoint]") {
  MemoryFileSystem files;
  files.set_exchange(GENERATE(true, false));
  CheckpointStore store(files, kRun, 2);
  store.commit(1, sample_checkpoint(1, 1));
  store.set_best(1);
  CHECK(files.same_file(kRun / "best/model.safetensors", store.folder_of(1) / "model.safetensors"));
  for (const int64_t step : {2, 3}) store.commit(step, sample_checkpoint(step, static_cast<char>(step)));
  CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000003", "step-00000002"});
  CHECK(verify_checkpoint(files, kRun / "best").empty());
  CHECK(files.get(kRun / "best/model.safetensors").back() == 1);

  store.set_best(3);
  CHECK(verify_checkpoint(files, kRun / "best").empty());
  CHECK(files.get(kRun / "best/model.safetensors").back() == 3);
  CHECK(is_tidy(files));
  // To set it once more is nothing to do.
  const auto before = files.tree(kRun);
  files.set_hard_links(false);
  files.set_capacity(0);
  store.set_best(3);
  CHECK(files.tree(kRun) == before);
}

TEST_CASE("where hard links are refused, best is a copy", "[checkpoint]") {
  MemoryFileSystem files;
  files.set_hard_links(false);
  CheckpointStore store(files, kRun, 2);
  store.commit(5, sample_checkpoint(5));
  store.set_best(5);
  CHECK_FALSE(files.same_file(kRun / "best/model.safetensors", store.folder_of(5) / "model.safetensors"));
  CHECK(verify_checkpoint(files, kRun / "best").empty());
}

TEST_CASE("a damaged or missing checkpoint does not become the best", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  store.commit(5, sample_checkpoint(5));
  store.set_best(5);
  store.commit(6, sample_checkpoint(6));
  files.put(store.folder_of(6) / "run.json", "{}");
  CHECK_THAT(message_of([&] { store.set_best(6); }), Contains("the checkpoint is damaged: run.json"));
  CHECK_THAT(message_of([&] { store.set_best(7); }), Contains("step-00000007"));
  CHECK(files.get(kRun / "best/manifest.json") == files.get(store.folder_of(5) / "manifest.json"));
  CHECK(is_tidy(files));
}

TEST_CASE("a full disk names the bytes needed and free, and leaves the old checkpoint and no litter", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  const uint64_t bytes = store.commit(1, sample_checkpoint(1));
  REQUIRE(bytes > 1000);
  REQUIRE(bytes < 2000);
  const std::string needed = "it needs 1," + std::to_string(bytes).substr(1) + " bytes, ";
  for (uint64_t room = 0; room < 1000; room += 37) {
    files.set_capacity(bytes + room);
    const std::string message = message_of([&] { store.commit(2, sample_checkpoint(1)); });
    CHECK_THAT(message, Contains("cannot save the checkpoint of step 2 in /runs/a/checkpoints: cannot write"));
    CHECK_THAT(message, Contains("No space left on device"));
    CHECK_THAT(message, Contains(needed + std::to_string(room) + " bytes are free. Free some room, lower --keep"));
    CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000001"});
    CHECK(verify_checkpoint(files, store.folder_of(1)).empty());
    CHECK(is_tidy(files));
  }
  files.set_capacity(2 * bytes - 1);
  CHECK_THAT(message_of([&] { store.commit(2, sample_checkpoint(1)); }), Contains("manifest.json"));
  files.set_capacity(2 * bytes);
  CHECK(store.commit(2, sample_checkpoint(1)) == bytes);
}

TEST_CASE("an error at any operation of a save leaves old or new, whole, and no litter", "[checkpoint]") {
  const bool exchange = GENERATE(true, false);
  const bool again = GENERATE(false, true);  // the step was saved before
  const int64_t step = again ? 2 : 3;
  int failed = 0;
  for (int64_t n = 1;; ++n) {
    MemoryFileSystem files;
    files.set_exchange(exchange);
    CheckpointStore store(files, kRun, 2);
    store.commit(1, sample_checkpoint(1, 1));
    store.commit(2, sample_checkpoint(2, 2));
    files.fail_operation(n, EIO);
    bool thrown = false;
    try {
      store.commit(step, sample_checkpoint(step, 9));
    } catch (const OutputError& error) {
      thrown = true;
      CHECK_THAT(error.what(), Contains("Input/output error"));
    }
    const int64_t operations = files.operations();
    files.restart(MemoryFileSystem::Survives::kAll);
    failed += thrown;
    INFO("operation " << n << " of " << operations);
    const auto newest = store.list().front();
    CHECK(verify_checkpoint(files, newest).empty());
    const char mark = files.get(newest / "model.safetensors").back();
    CHECK((mark == 2 || mark == 9));
    CHECK(verify_checkpoint(files, store.folder_of(2)).empty());
    if (!thrown) CHECK(mark == 9);
    // A failed removal may itself be what leaves something; the next start sweeps it away.
    store.remove_temporary();
    CHECK(is_tidy(files));
    CHECK(verify_checkpoint(files, store.folder_of(2)).empty());
    if (!thrown && n > operations) break;
    REQUIRE(n < 500);
  }
  CHECK(failed > 20);
}

TEST_CASE("leftovers of interrupted saves are removed, the user's own files are not", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  store.commit(1, sample_checkpoint(1));
  for (const char* name :
       {"checkpoints/.tmp-step-00000002/model.safetensors", "checkpoints/.tmp-remove-step-00000000/run.json",
        ".tmp-best/run.json", "checkpoints/.old-step-00000001/run.json"})
    files.put(kRun / name, "x");
  files.put(kRun / ".tmp-mine", "x");
  files.put(kRun / "checkpoints/.old-notes", "x");
  store.remove_temporary();
  CHECK(files.tree(kRun) ==
        std::vector<std::string>{".tmp-mine", "checkpoints/.old-notes", "checkpoints/step-00000001/manifest.json",
                                 "checkpoints/step-00000001/model.safetensors", "checkpoints/step-00000001/run.json",
                                 "checkpoints/step-00000001/state.safetensors"});
  CheckpointStore(files, "/none", 2).remove_temporary();
}

TEST_CASE("what was set aside when the process died is put back", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  store.commit(1, sample_checkpoint(1));
  store.set_best(1);
  files.rename(kRun / "best", kRun / ".old-best");
  files.rename(store.folder_of(1), kRun / "checkpoints/.old-step-00000001");
  CHECK(find_best(files, kRun) == kRun / ".old-best");
  store.remove_temporary();
  CHECK(find_best(files, kRun) == kRun / "best");
  CHECK(verify_checkpoint(files, kRun / "best").empty());
  CHECK(verify_checkpoint(files, store.folder_of(1)).empty());
}

TEST_CASE("what a writer throws passes through, and the temporary folder is gone", "[checkpoint]") {
  MemoryFileSystem files;
  CheckpointStore store(files, kRun, 2);
  std::vector<CheckpointFile> checkpoint = sample_checkpoint(1);
  checkpoint[1].write = [](WritableFile&) { throw DeviceError("the device is lost"); };
  CHECK_THROWS_AS(store.commit(1, checkpoint), DeviceError);
  CHECK(store.list().empty());
  CHECK(is_tidy(files));
}

TEST_CASE("bytes that came to the disk changed are noticed before the rename", "[checkpoint]") {
  struct Flipping final : WritableFile {
    explicit Flipping(std::unique_ptr<WritableFile> file) : file(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      std::vector<std::byte> changed(bytes.begin(), bytes.end());
      if (!changed.empty()) changed.back() ^= std::byte{1};
      file->write(changed);
    }
    void sync() override { file->sync(); }
    void close() override { file->close(); }
    std::unique_ptr<WritableFile> file;
  };
  struct FlippingDisk final : FileSystem {
    MemoryFileSystem disk;
    std::unique_ptr<WritableFile> create(const Path& file) override {
      auto opened = disk.create(file);
      if (file.filename() != "state.safetensors") return opened;
      return std::make_unique<Flipping>(std::move(opened));
    }
    std::unique_ptr<WritableFile> append(const Path& file) override { return disk.append(file); }
    std::vector<std::byte> read(const Path& file, uint64_t offset, uint64_t length) override {
      return disk.read(file, offset, length);
    }
    uint64_t size(const Path& file) override { return disk.size(file); }
    bool is_file(const Path& path) override { return disk.is_file(path); }
    bool is_directory(const Path& path) override { return disk.is_directory(path); }
    std::vector<std::string> list(const Path& directory) override { return disk.list(directory); }
    void make_directories(const Path& directory) override { disk.make_directories(directory); }
    void rename(const Path& from, const Path& to) override { disk.rename(from, to); }
    void hard_link(const Path& existing, const Path& link) override { disk.hard_link(existing, link); }
    void truncate(const Path& file, uint64_t length) override { disk.truncate(file, length); }
    void remove_all(const Path& path) override { disk.remove_all(path); }
    void sync_directory(const Path& directory) override { disk.sync_directory(directory); }
    uint64_t free_bytes(const Path& path) override { return disk.free_bytes(path); }
  } files;
  CheckpointStore store(files, kRun, 2);
  CHECK_THAT(message_of([&] { store.commit(1, sample_checkpoint(1)); }),
             Contains("read again, it is not what was written: state.safetensors: XXH3-128"));
  CHECK(store.list().empty());
  CHECK(is_tidy(files.disk));
}

TEST_CASE("a bad name, a name twice and keep 1 are bugs of the caller", "[checkpoint]") {
  MemoryFileSystem files;
  CHECK_THROWS_AS(CheckpointStore(files, kRun, 1), std::logic_error);
  CheckpointStore store(files, kRun, 2);
  CHECK_THROWS_AS(store.commit(1, {test::sample_file("a/b", "")}), std::logic_error);
  CHECK_THROWS_AS(store.commit(1, {test::sample_file("a", ""), test::sample_file("a", "")}), std::logic_error);
  CHECK_THROWS_AS(store.commit(-1, {}), std::logic_error);
  CHECK(is_tidy(files));
}

TEST_CASE("checkpoints and best on the real disk", "[checkpoint]") {
  const test::TemporaryFolder folder;
  const auto files = make_posix_file_system();
  const std::filesystem::path run = folder.path() / "not/yet/made";
  CheckpointStore store(*files, run, 2);
  char fill = 0;
  for (const int64_t step : {1, 2, 3, 3}) {
    store.commit(step, sample_checkpoint(step, ++fill));
    store.set_best(step);
  }
  CHECK(names_of(store.list()) == std::vector<std::string>{"step-00000003", "step-00000002"});
  CHECK(verify_checkpoint(*files, run / "best").empty());
  CHECK(read_text(*files, run / "best/model.safetensors").back() == 4);
  CHECK(std::filesystem::equivalent(run / "best/run.json", store.folder_of(3) / "run.json"));
  CHECK(files->list(run) == std::vector<std::string>{"best", "checkpoints"});
  CHECK(files->list(run / "checkpoints") == std::vector<std::string>{"step-00000002", "step-00000003"});

  write_text(*files, folder.path() / "file", "");
  CheckpointStore nowhere(*files, folder.path() / "file/run", 2);
  CHECK_THAT(message_of([&] { nowhere.commit(1, sample_checkpoint(1)); }), Contains("Not a directory"));
}

}  // namespace
}  // namespace mgtrain
