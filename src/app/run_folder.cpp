#include "app/run_folder.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "checkpoint/resume.h"
#include "checkpoint/store.h"

namespace mgtrain {
namespace {

using Path = std::filesystem::path;

bool same_place(const Path& one, const Path& other) {
  std::error_code error;
  const Path a = std::filesystem::weakly_canonical(one, error), b = std::filesystem::weakly_canonical(other, error);
  return !error && a == b;
}

/// Files and folders that a run writes; nothing else in its folder is ours to remove.
bool written_by_a_run(const std::string& name) {
  static const std::vector<std::string> names = {"config.toml",   "plan.json",   "environment.json",
                                                 "metrics.jsonl", "log.txt",     "best",
                                                 "checkpoints",   "samples.txt", "summary.json"};
  return std::ranges::find(names, name) != names.end() || name.starts_with("events.out.tfevents.");
}

void remove_run(FileSystem& files, const Path& folder) {
  std::vector<std::string> names = files.list(folder);
  // Without its metrics a folder is no run any more, should this be interrupted.
  std::ranges::stable_sort(names, std::ranges::greater(),
                           [](const std::string& name) { return name == "metrics.jsonl"; });
  for (const std::string& name : names) {
    if (written_by_a_run(name)) files.remove_all(folder / name);
  }
}

/// A new folder that was not there before; false if someone else has it.
bool make_new(const Path& folder) {
  std::error_code error;
  const bool made = std::filesystem::create_directory(folder, error);
  if (error)
    throw OutputError("cannot make the run folder " + folder.string() + ": " + error.message() +
                      "; expected a place that can be written; give another with --output");
  return made;
}

Path new_default_folder(const std::string& name, AppContext& context) {
  const Path parent = "runs";
  context.files.make_directories(parent);
  const std::string stem = name + "-" + compact_utc(context.clock.unix_seconds());
  for (int i = 1;; ++i) {
    const Path folder = parent / (i == 1 ? stem : stem + "-" + std::to_string(i));
    if (make_new(folder)) return folder;
  }
}

void prove_writable(FileSystem& files, const Path& folder) {
  const Path probe = folder / ".write-test";
  files.create(probe)->close();
  files.remove_all(probe);
}

void resume_from_path(const CommandLine& line, AppContext& context, RunPlace& place) {
  ResumePoint point = resume_from(context.files, line.resume);
  place.checkpoint = point.checkpoint;
  place.notes = std::move(point.notes);
  place.warnings = std::move(point.warnings);
  if (place.folder.empty()) place.folder = point.run;
  if (!point.run.empty() && !same_place(place.folder, point.run)) place.from = point.run;
  place.cut_back = !point.run.empty() && place.from.empty();
  if (!place.cut_back && is_existing_run(context.files, place.folder)) {
    throw ConfigError("--output " + place.folder.string() + " holds another run than --resume " + line.resume +
                      " names; expected the same, or a new folder");
  }
}

void resume_automatically(AppContext& context, RunPlace& place) {
  if (place.folder.empty()) {
    place.warnings.emplace_back(
        "--resume auto without --output: each run has a new folder, so there is nothing to go on from; starts at step "
        "0 (give --output FOLDER, so that a restart finds it)");
    return;
  }
  ResumePoint point = resume_auto(context.files, place.folder);
  place.checkpoint = point.checkpoint;
  place.notes = std::move(point.notes);
  place.warnings = std::move(point.warnings);
  place.cut_back = place.checkpoint.has_value();
  // A run that died before its first checkpoint.
  place.start_over = !place.cut_back && is_existing_run(context.files, place.folder);
}

}  // namespace

RunPlace find_run_place(const CommandLine& line, AppContext& context) {
  if (line.overwrite && !line.resume.empty()) {
    throw ConfigError("--overwrite and --resume " + line.resume +
                      " contradict each other: one starts over, the other goes on; give one");
  }
  if (line.overwrite && line.output.empty()) {
    throw ConfigError("--overwrite replaces the run that --output names, and there is no --output; give it");
  }
  RunPlace place;
  place.folder = line.output;
  if (line.resume == "auto") {
    resume_automatically(context, place);
  } else if (!line.resume.empty()) {
    resume_from_path(line, context, place);
  } else if (!place.folder.empty() && is_existing_run(context.files, place.folder)) {
    if (!line.overwrite) {
      throw ConfigError("--output " + place.folder.string() +
                        " holds a run; --resume auto goes on with it, --overwrite replaces it, another --output "
                        "leaves it alone");
    }
    place.start_over = true;
  }
  if (place.checkpoint) place.record = read_run_record(context.files, *place.checkpoint);
  return place;
}

std::filesystem::path claim_run_folder(const RunPlace& place, const std::string& name, AppContext& context) {
  try {
    if (place.folder.empty()) return new_default_folder(name, context);
    context.files.make_directories(place.folder);
    prove_writable(context.files, place.folder);
    if (place.start_over) remove_run(context.files, place.folder);
    return place.folder;
  } catch (const FileError& error) {
    throw OutputError(std::string(error.what()) +
                      "; expected a folder for the run that can be written; give another with --output");
  }
}

void carry_best_over(const RunPlace& place, const std::filesystem::path& folder, FileSystem& files) {
  if (place.from.empty()) return;
  const std::optional<Path> best = find_best(files, place.from);
  if (!best || !checkpoint_problem(files, *best).empty()) return;
  constexpr uint64_t kChunk = uint64_t{1} << 22;
  const Path to = folder / "best";
  files.remove_all(to);
  files.make_directories(to);
  for (const std::string& name : files.list(*best)) {
    const auto copy = files.create(to / name);
    const uint64_t size = files.size(*best / name);
    for (uint64_t at = 0; at < size;) {
      const std::vector<std::byte> bytes = files.read(*best / name, at, kChunk);
      if (bytes.empty()) break;
      copy->write(bytes);
      at += bytes.size();
    }
    copy->sync();
    copy->close();
  }
  files.sync_directory(to);
}

}  // namespace mgtrain
