// known_faults.md, row 50: a kill during a save leaves a file that cannot be read. Here: the process dies at every
// operation of a save, and the disk keeps all, what was synced, or names without contents, removals first or not.
// Afterwards the newest valid checkpoint is the old or the new one, and the next save succeeds.
#include "checkpoint/resume.h"
#include "checkpoint/sample_checkpoint.h"
#include "checkpoint/store.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;
using Survives = MemoryFileSystem::Survives;

const std::filesystem::path kRun = "/runs/a";

/// A run with steps 1 and 2 saved, step 1 the best; checkpoints are told apart by the fill of their tensors.
struct Run {
  MemoryFileSystem files;
  CheckpointStore store{files, kRun, 2};
  Run(bool exchange, bool hard_links, bool eager_removal) {
    files.set_exchange(exchange);
    files.set_eager_removal(eager_removal);
    files.set_hard_links(hard_links);
    save(1, 1);
    store.set_best(1);
    save(2, 2);
  }
  void save(int64_t step, char fill) { store.commit(step, test::sample_checkpoint(step, fill)); }
  char fill_of(const std::filesystem::path& checkpoint) const {
    return files.get(checkpoint / "model.safetensors").back();
  }
  /// Runs an action that dies at its n-th operation; false if it ended before.
  bool dies(int64_t n, Survives survives, const std::function<void()>& action) {
    const int64_t before = files.operations();
    files.die_at_operation(n);
    bool died = false;
    try {
      action();
      died = files.operations() - before >= n;  // in clean-up, whose errors are swallowed
    } catch (const test::ProcessDied&) {
      died = true;
    }
    files.restart(survives);
    return died;
  }
  bool is_tidy() const {
    for (const std::string& path : files.tree(kRun)) {
      if (path.find("/.") != std::string::npos || path.front() == '.') return false;
    }
    return true;
  }
};

TEST_CASE("killed at any operation of a save, a run resumes from the old or the new checkpoint", "[issues]") {
  const Survives survives = GENERATE(Survives::kAll, Survives::kSynced, Survives::kNamesOnly);
  const bool exchange = GENERATE(true, false), eager_removal = GENERATE(true, false);
  // A new step; the newest one once more, as after a resume; an earlier one, after going back.
  const int64_t step = GENERATE(3, 2, 1);
  int64_t deaths = 0;
  for (int64_t n = 1;; ++n, ++deaths) {
    Run run(exchange, true, eager_removal);
    if (!run.dies(n, survives, [&] { run.save(step, 9); })) break;
    INFO("step " << step << ", died at operation " << n);
    const ResumePoint point = resume_auto(run.files, kRun);
    REQUIRE(point.checkpoint);
    const char fill = run.fill_of(*point.checkpoint);
    CHECK((fill == 2 || fill == 9));
    CHECK(verify_checkpoint(run.files, kRun / "best").empty());

    run.store.remove_temporary();
    CHECK(run.is_tidy());
    run.save(4, 4);
    CHECK(run.fill_of(resume_auto(run.files, kRun).checkpoint.value()) == 4);
    for (const auto& folder : run.store.list()) CHECK(verify_checkpoint(run.files, folder).empty());
    REQUIRE(n < 500);
  }
  CHECK(deaths > 20);
}

TEST_CASE("killed at any operation of the first save, a run starts over or resumes", "[issues]") {
  const Survives survives = GENERATE(Survives::kAll, Survives::kSynced, Survives::kNamesOnly);
  int64_t deaths = 0;
  for (int64_t n = 1;; ++n, ++deaths) {
    MemoryFileSystem files;
    CheckpointStore store(files, kRun, 2);
    files.die_at_operation(n);
    try {
      store.commit(1, test::sample_checkpoint(1));
      break;
    } catch (const test::ProcessDied&) {
    }
    files.restart(survives);
    const ResumePoint point = resume_auto(files, kRun);  // never an error: nothing committed is nothing lost
    if (point.checkpoint) CHECK(verify_checkpoint(files, *point.checkpoint).empty());
    store.remove_temporary();
    store.commit(1, test::sample_checkpoint(1));
    CHECK(resume_auto(files, kRun).checkpoint == store.folder_of(1));
    REQUIRE(n < 500);
  }
  CHECK(deaths > 15);
}

TEST_CASE("killed at any operation of setting best, the best is the old or the new one", "[issues]") {
  const Survives survives = GENERATE(Survives::kAll, Survives::kSynced, Survives::kNamesOnly);
  const bool exchange = GENERATE(true, false), hard_links = GENERATE(true, false);
  const bool eager_removal = GENERATE(true, false);
  int64_t deaths = 0;
  for (int64_t n = 1;; ++n, ++deaths) {
    Run run(exchange, hard_links, eager_removal);
    if (!run.dies(n, survives, [&] { run.store.set_best(2); })) break;
    INFO("died at operation " << n);
    const std::filesystem::path used = checkpoint_of_run(run.files, kRun, "best");
    CHECK((run.fill_of(used) == 1 || run.fill_of(used) == 2));

    run.store.remove_temporary();
    CHECK(run.is_tidy());
    run.store.set_best(2);
    CHECK(run.fill_of(checkpoint_of_run(run.files, kRun, "best")) == 2);
    REQUIRE(n < 500);
  }
  CHECK(deaths > 15);
}

}  // namespace
}  // namespace mgtrain
