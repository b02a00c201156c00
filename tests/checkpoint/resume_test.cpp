#include "checkpoint/resume.h"

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
using Path = std::filesystem::path;

/// A run folder on either file system, to be put into one of the layouts.
struct Layout {
  FileSystem& files;
  Path run;

  void commit(int64_t step) { CheckpointStore(files, run, 9).commit(step, test::sample_checkpoint(step)); }
  Path folder(int64_t step) const { return run / "checkpoints" / step_folder_name(step); }
  void damage(int64_t step) { write_text(files, folder(step) / "model.safetensors", "no tensors"); }
  void make(const Path& directory) { files.make_directories(directory); }
};

/// The step a resume starts from, 0 for a new run, or the message of the CheckpointError.
std::string start_of(Layout& layout, ResumePoint& point) {
  try {
    point = resume_auto(layout.files, layout.run);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  CHECK(point.run == layout.run);
  if (!point.checkpoint) {
    CHECK(point.notes == std::vector<std::string>{"no checkpoint in " + layout.run.string() + ": starting at step 0"});
    return "0";
  }
  CHECK(read_run_record(layout.files, *point.checkpoint).state.step ==
        *step_of_folder_name(point.checkpoint->filename().string()));
  return std::to_string(*step_of_folder_name(point.checkpoint->filename().string()));
}

/// Layouts of G6 (reliability.md), on either file system. Wrong model and other data set: resume_changes_test.cpp.
void check_layouts(FileSystem& files, const Path& root) {
  ResumePoint point;
  const auto in = [&](const char* name) { return Layout{files, root / name}; };

  SECTION("1. no folder: a fresh start") {
    Layout layout = in("none");
    CHECK(start_of(layout, point) == "0");
    CHECK(point.warnings.empty());
  }
  SECTION("2. an empty run folder: a fresh start") {
    Layout layout = in("run");
    layout.make(layout.run);
    CHECK(start_of(layout, point) == "0");
  }
  SECTION("3. no checkpoint was ever committed: a fresh start") {
    Layout layout = in("run");
    layout.make(layout.run / "checkpoints");
    CHECK(start_of(layout, point) == "0");
  }
  SECTION("4. only a temporary folder: a fresh start") {
    Layout layout = in("run");
    layout.commit(10);
    files.rename(layout.folder(10), layout.run / "checkpoints/.tmp-step-00000010");
    CHECK(start_of(layout, point) == "0");
  }
  SECTION("5. good ones: the newest, without a warning") {
    Layout layout = in("run");
    for (const int64_t step : {9, 10, 100}) layout.commit(step);
    CHECK(start_of(layout, point) == "100");
    CHECK(point.warnings.empty());
    CHECK(point.notes == std::vector<std::string>{"resuming from " + layout.folder(100).string()});
  }
  SECTION("6. the newest is bad: the one before, and one warning") {
    Layout layout = in("run");
    for (const int64_t step : {10, 20}) layout.commit(step);
    layout.damage(20);
    CHECK(start_of(layout, point) == "10");
    REQUIRE(point.warnings.size() == 1);
    CHECK_THAT(point.warnings[0], Contains("damaged checkpoint passed over, step-00000010 is used: "
                                           "step-00000020: model.safetensors: 10 bytes, manifest says "));
  }
  SECTION("7. several bad ones: still one warning, which lists them") {
    Layout layout = in("run");
    for (const int64_t step : {10, 20, 30, 40}) layout.commit(step);
    layout.damage(20);
    files.remove_all(layout.folder(30) / "manifest.json");
    write_text(files, layout.folder(40) / "more", "");
    CHECK(start_of(layout, point) == "10");
    REQUIRE(point.warnings.size() == 1);
    CHECK_THAT(point.warnings[0], Contains("3 damaged checkpoints") && Contains("step-00000040: more: the manifest") &&
                                      Contains("step-00000030: manifest.json is missing") &&
                                      Contains("step-00000020: model.safetensors: 10 bytes"));
  }
  SECTION("8. only bad ones: an error that lists them, never a fresh start") {
    Layout layout = in("run");
    for (const int64_t step : {10, 20}) layout.commit(step);
    layout.damage(10);
    layout.damage(20);
    CHECK_THAT(start_of(layout, point), Contains("none of the 2 checkpoints in") && Contains("step-00000010: model") &&
                                            Contains("step-00000020: model"));
  }
  SECTION("9. the newest is an empty folder") {
    Layout layout = in("run");
    layout.commit(10);
    layout.make(layout.folder(20));
    CHECK(start_of(layout, point) == "10");
    CHECK(point.warnings.size() == 1);
  }
  SECTION("10. only an empty step folder: an error") {
    Layout layout = in("run");
    layout.make(layout.folder(20));
    CHECK_THAT(start_of(layout, point), Contains("none of the 1 checkpoints"));
  }
  SECTION("11. files and folders of other names are nobody's checkpoints") {
    Layout layout = in("run");
    layout.commit(10);
    write_text(files, layout.folder(20), "a file");
    layout.make(layout.run / "checkpoints/step-30");
    layout.make(layout.run / "checkpoints/latest");
    CHECK(start_of(layout, point) == "10");
    CHECK(point.warnings.empty());
  }
  SECTION("12. the process died while a step was being replaced: the former one is put back") {
    Layout layout = in("run");
    for (const int64_t step : {10, 20}) layout.commit(step);
    files.rename(layout.folder(20), layout.run / "checkpoints/.old-step-00000020");
    CHECK(start_of(layout, point) == "20");
    CHECK(point.warnings.empty());
  }
  SECTION("13. whole by its manifest, but not of mgtrain: bad") {
    Layout layout = in("run");
    layout.commit(10);
    CheckpointStore store(files, layout.run, 9);
    store.commit(20, {test::sample_file("model.safetensors", test::sample_safetensors({{"a", 1}}, 1))});
    store.commit(30, {test::sample_file("model.safetensors", test::sample_safetensors({{"a", 1}}, 1)),
                      test::sample_file("state.safetensors", test::sample_safetensors({}, 1)),
                      test::sample_file("run.json", "{}")});
    CHECK(start_of(layout, point) == "10");
    REQUIRE(point.warnings.size() == 1);
    CHECK_THAT(point.warnings[0],
               Contains("step-00000020: state.safetensors: missing") && Contains("run.json: schema is missing"));
  }
}

TEST_CASE("--resume auto, in memory", "[checkpoint]") {
  MemoryFileSystem files;
  check_layouts(files, "/runs");
}

TEST_CASE("--resume auto, on the real disk", "[checkpoint]") {
  const test::TemporaryFolder folder;
  const auto files = make_posix_file_system();
  check_layouts(*files, folder.path());
}

std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no CheckpointError";
}

struct TwoCheckpoints {
  MemoryFileSystem files;
  Path run = "/runs/a";
  CheckpointStore store{files, run, 9};
  TwoCheckpoints() {
    for (const int64_t step : {10, 20}) store.commit(step, test::sample_checkpoint(step));
    store.set_best(10);
  }
  std::string resume_fault(const Path& path) {
    return fault_of([&] { (void)resume_from(files, path); });
  }
};

TEST_CASE("--resume PATH takes a run folder or a checkpoint folder", "[checkpoint]") {
  TwoCheckpoints t;
  const auto from = [&](const Path& path) { return resume_from(t.files, path); };
  CHECK(from(t.run).checkpoint == t.store.folder_of(20));
  CHECK(from(t.run).run == t.run);
  CHECK(from("/runs/a/").checkpoint.value().lexically_normal() == t.store.folder_of(20));
  CHECK(from(t.store.folder_of(10)).checkpoint == t.store.folder_of(10));
  CHECK(from(t.store.folder_of(10)).run == t.run);
  CHECK(from("/runs/a/checkpoints/step-00000010/").run == t.run);
  CHECK(from("/runs/a/../a/checkpoints/./step-00000010").run == t.run);
  CHECK(from(t.run / "best").run == t.run);
  // A checkpoint that was copied elsewhere is of no run.
  for (const std::string& name : t.files.list(t.run / "best"))
    t.files.put(Path("/copy/of/it") / name, t.files.get(t.run / "best" / name));
  CHECK(from("/copy/of/it").checkpoint == Path("/copy/of/it"));
  CHECK(from("/copy/of/it").run.empty());
}

TEST_CASE("--resume PATH must exist and be valid", "[checkpoint]") {
  TwoCheckpoints t;
  CHECK_THAT(t.resume_fault("/none"), Contains("/none does not exist; --resume takes"));
  CHECK_THAT(t.resume_fault(t.run / "best/run.json"), Contains("is a file"));
  t.files.make_directories("/empty");
  CHECK_THAT(t.resume_fault("/empty"), Contains("/empty has no checkpoint"));

  t.files.put(t.store.folder_of(20) / "run.json", "x");
  CHECK_THAT(t.resume_fault(t.store.folder_of(20)), Contains("is not a valid checkpoint: run.json: 1 bytes"));
  const ResumePoint point = resume_from(t.files, t.run);
  CHECK(point.checkpoint == t.store.folder_of(10));
  CHECK(point.warnings.size() == 1);

  t.files.put(t.store.folder_of(10) / "run.json", "x");
  CHECK_THAT(t.resume_fault(t.run), Contains("none of the 2 checkpoints"));
  // A step folder from which all is gone is still a checkpoint, a damaged one.
  t.files.make_directories("/runs/b/checkpoints/step-00000001");
  CHECK_THAT(t.resume_fault("/runs/b/checkpoints/step-00000001"), Contains("manifest.json is missing"));
}

TEST_CASE("eval takes best, else the newest, or what is asked for", "[checkpoint]") {
  TwoCheckpoints t;
  const auto chosen = [&](const std::string& which) { return checkpoint_of_run(t.files, t.run, which); };
  CHECK(chosen("") == t.run / "best");
  CHECK(chosen("best") == t.run / "best");
  CHECK(chosen("last") == t.store.folder_of(20));
  CHECK(chosen("10") == t.store.folder_of(10));
  CHECK(chosen("step-00000010") == t.store.folder_of(10));
  CHECK(chosen("checkpoints/step-00000010") == t.store.folder_of(10));
  CHECK(chosen(t.store.folder_of(20).string()) == t.store.folder_of(20));
  CHECK(checkpoint_of_run(t.files, t.store.folder_of(10), "") == t.store.folder_of(10));
  CHECK(checkpoint_of_run(t.files, t.run / "best", "") == t.run / "best");

  CHECK_THAT(fault_of([&] { chosen("15"); }), Contains("no checkpoint of step 15; it has those of steps 20, 10"));
  CHECK_THAT(fault_of([&] { chosen("newest"); }), Contains("takes best, last, a step number or a path"));
  CHECK_THAT(fault_of([&] { checkpoint_of_run(t.files, t.run / "best", "last"); }), Contains("is a checkpoint itself"));
  CHECK_THAT(fault_of([&] { checkpoint_of_run(t.files, "/none", ""); }), Contains("does not exist"));

  // Died while best/ was being replaced on a file system that cannot exchange folders.
  t.files.rename(t.run / "best", t.run / ".old-best");
  CHECK(chosen("") == t.run / ".old-best");
  t.files.remove_all(t.run / ".old-best");
  CHECK(chosen("") == t.store.folder_of(20));
  CHECK_THAT(fault_of([&] { chosen("best"); }), Contains("has no best/"));
}

TEST_CASE("eval never uses a damaged checkpoint, and says which it passed over", "[checkpoint]") {
  TwoCheckpoints t;
  t.files.put(t.run / "best/state.safetensors", "x");
  CHECK_THAT(fault_of([&] { checkpoint_of_run(t.files, t.run, ""); }), Contains("best is not a valid checkpoint"));
  // Linked: the same damage in step 10.
  t.files.remove_all(t.store.folder_of(20) / "run.json");
  std::vector<std::string> warnings;
  CHECK_THROWS_AS(checkpoint_of_run(t.files, t.run, "20", &warnings), CheckpointError);
  t.store.commit(15, test::sample_checkpoint(15));
  t.files.make_directories(t.store.folder_of(20));
  CHECK(checkpoint_of_run(t.files, t.run, "last", &warnings) == t.store.folder_of(15));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("step-00000020: manifest.json is missing"));
}

TEST_CASE("a run exists once its metrics have a start event", "[checkpoint]") {
  MemoryFileSystem files;
  const auto exists = [&](const std::string& metrics) {
    files.put("/run/metrics.jsonl", metrics);
    return is_existing_run(files, "/run");
  };
  CHECK_FALSE(is_existing_run(files, "/run"));
  CHECK_FALSE(exists(""));
  CHECK_FALSE(exists("{\"event\": \"warning\", \"text\": \"start\"}\n"));
  CHECK_FALSE(exists("\"start\"\n" + std::string(100'000, '[') + "\"start\"\n"));
  CHECK_FALSE(exists("{\"schema\": 1, \"event\": \"start\""));
  CHECK(exists("{\"schema\": 1, \"event\": \"start\"}\n"));
  CHECK(exists("{\"event\":\"warning\"}\n{\"event\":\"start\",\"step\":0}\n{\"event\":\"end\"}\n"));
  CHECK(exists(std::string(3 << 20, ' ') + "\n{\"event\":\"start\"}\n"));
}

TEST_CASE("lines without number before the start event are looked through once", "[checkpoint]") {
  test::MemoryFileSystem files;
  // Each taken out of the front by itself would be moved through memory a million times.
  files.put("/run/metrics.jsonl", std::string(1 << 20, '\n') + "{\"event\":\"start\"}\n");
  CHECK(is_existing_run(files, "/run"));
  files.put("/run/metrics.jsonl", std::string(17 << 20, 'x') + "\n{\"event\":\"start\"}\n");
  CHECK_FALSE(is_existing_run(files, "/run"));
}

}  // namespace
}  // namespace mgtrain
