#include "checkpoint/resume.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "checkpoint/run_record.h"
#include "checkpoint/store.h"

namespace mgtrain {

namespace {

using Path = std::filesystem::path;

constexpr const char* kRequiredFiles[] = {"model.safetensors", "state.safetensors", kRunRecordName};
constexpr uint64_t kReadChunk = uint64_t{1} << 20;
constexpr size_t kLongestLine = size_t{16} << 20;  // of metrics.jsonl; ours have some kilobytes

/// A folder's path by which its name and its parents can be told.
Path plain(const Path& path) {
  Path normal = std::filesystem::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// The run that a checkpoint folder belongs to, or an empty path.
Path run_of_checkpoint(const Path& checkpoint) {
  const Path folder = plain(checkpoint), parent = folder.parent_path();
  if (parent.filename() == "checkpoints") return parent.parent_path();
  const std::string name = folder.filename().string();
  return name == "best" || name == ".old-best" ? parent : Path();
}

std::string and_more(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += "\n  " + problem;
  return text;
}

struct Newest {
  std::optional<Path> checkpoint;
  std::vector<std::string> problems;  // of the newer ones, "step-00000010: ..."
  size_t num_committed = 0;
};

Newest newest_valid(FileSystem& files, const Path& run) {
  Newest newest;
  const std::vector<Path> folders = step_folders(files, run);
  newest.num_committed = folders.size();
  for (const Path& folder : folders) {
    const std::string problem = checkpoint_problem(files, folder);
    if (problem.empty()) {
      newest.checkpoint = folder;
      break;
    }
    newest.problems.push_back(folder.filename().string() + ": " + problem);
  }
  return newest;
}

[[noreturn]] void throw_none_valid(const Path& run, const Newest& newest) {
  throw CheckpointError("none of the " + std::to_string(newest.num_committed) + " checkpoints in " +
                        (run / "checkpoints").string() + " is valid:" + and_more(newest.problems) +
                        "\nUse another run folder, or --overwrite to start over");
}

std::string passed_over(const Newest& newest) {
  const std::string name = newest.checkpoint->filename().string();
  if (newest.problems.size() == 1) return "damaged checkpoint passed over, " + name + " is used: " + newest.problems[0];
  return std::to_string(newest.problems.size()) + " damaged checkpoints passed over, " + name +
         " is used:" + and_more(newest.problems);
}

Path newest_or_throw(FileSystem& files, const Path& run, std::vector<std::string>* warnings) {
  const Newest newest = newest_valid(files, run);
  if (newest.num_committed == 0)
    throw CheckpointError(run.string() + " has no checkpoint: there is no folder checkpoints/step-* in it");
  if (!newest.checkpoint) throw_none_valid(run, newest);
  if (warnings != nullptr && !newest.problems.empty()) warnings->push_back(passed_over(newest));
  return *newest.checkpoint;
}

Path valid_or_throw(FileSystem& files, const Path& checkpoint) {
  const std::string problem = checkpoint_problem(files, checkpoint);
  if (problem.empty()) return checkpoint;
  throw CheckpointError(checkpoint.string() + " is not a valid checkpoint: " + problem +
                        ". Another one of the run may be whole: mgtrain checkpoint verify RUN");
}

Path checkpoint_of_step(FileSystem& files, const Path& run, const std::string& digits) {
  for (const Path& folder : step_folders(files, run)) {
    if (std::to_string(*step_of_folder_name(folder.filename().string())) == digits) return folder;
  }
  std::string there;
  for (const Path& folder : step_folders(files, run))
    there += (there.empty() ? "" : ", ") + std::to_string(*step_of_folder_name(folder.filename().string()));
  throw CheckpointError(run.string() + " has no checkpoint of step " + digits + "; it has " +
                        (there.empty() ? "none" : "those of steps " + there));
}

bool is_start_event(std::string_view line) {
  if (line.find("\"start\"") == std::string_view::npos) return false;
  // A line may be anything: what is nested deep is no event of ours.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= 8; };
  const nlohmann::json event = nlohmann::json::parse(line, shallow, false);
  return event.is_object() && event.contains("event") && event["event"] == "start";
}

}  // namespace

ResumePoint resume_auto(FileSystem& files, const std::filesystem::path& run) {
  ResumePoint point{.run = run};
  try {
    restore_set_aside(files, run);
    const Newest newest = newest_valid(files, run);
    if (newest.num_committed == 0) {
      point.notes.push_back("no checkpoint in " + run.string() + ": starting at step 0");
      return point;
    }
    if (!newest.checkpoint) throw_none_valid(run, newest);
    point.checkpoint = newest.checkpoint;
    point.notes.push_back("resuming from " + newest.checkpoint->string());
    if (!newest.problems.empty()) point.warnings.push_back(passed_over(newest));
    return point;
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
}

ResumePoint resume_from(FileSystem& files, const std::filesystem::path& path) {
  if (!files.is_directory(path))
    throw CheckpointError(path.string() + (files.is_file(path) ? " is a file" : " does not exist") +
                          "; --resume takes a run folder, a checkpoint folder or the word auto");
  ResumePoint point;
  try {
    if (is_checkpoint_folder(files, path)) {
      point.checkpoint = valid_or_throw(files, path);
      point.run = run_of_checkpoint(path);
    } else {
      restore_set_aside(files, path);
      point.checkpoint = newest_or_throw(files, path, &point.warnings);
      point.run = path;
    }
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
  point.notes.push_back("resuming from " + point.checkpoint->string());
  return point;
}

std::filesystem::path checkpoint_of_run(FileSystem& files, const std::filesystem::path& run,
                                        const std::string& checkpoint, std::vector<std::string>* warnings) {
  if (!files.is_directory(run))
    throw CheckpointError(run.string() + (files.is_file(run) ? " is a file" : " does not exist") +
                          "; expected a run folder or a checkpoint folder");
  try {
    if (is_checkpoint_folder(files, run)) {
      if (!checkpoint.empty())
        throw CheckpointError(run.string() + " is a checkpoint itself: --checkpoint is for run folders");
      return valid_or_throw(files, run);
    }
    const std::optional<Path> best = find_best(files, run);
    if (checkpoint == "best" || (checkpoint.empty() && best)) {
      if (!best) throw CheckpointError(run.string() + " has no best/; --checkpoint last takes the newest");
      return valid_or_throw(files, *best);
    }
    if (checkpoint.empty() || checkpoint == "last") return newest_or_throw(files, run, warnings);
    if (checkpoint.find_first_not_of("0123456789") == std::string::npos)
      return valid_or_throw(files, checkpoint_of_step(files, run, checkpoint));
    for (const Path& place : {Path(checkpoint), run / checkpoint, run / "checkpoints" / checkpoint}) {
      if (files.is_directory(place)) return valid_or_throw(files, place);
    }
    throw CheckpointError("no checkpoint \"" + checkpoint + "\" in " + run.string() +
                          "; --checkpoint takes best, last, a step number or a path");
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
}

bool is_existing_run(FileSystem& files, const std::filesystem::path& run) {
  const Path metrics = run / "metrics.jsonl";
  if (!files.is_file(metrics)) return false;
  try {
    std::string pending;
    for (uint64_t offset = 0;;) {
      const std::vector<std::byte> chunk = files.read(metrics, offset, kReadChunk);
      pending.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      offset += chunk.size();
      size_t begin = 0;
      for (size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
        if (is_start_event(std::string_view(pending).substr(begin, end - begin))) return true;
      }
      pending.erase(0, begin);
      if (pending.size() > kLongestLine) return false;
      if (chunk.empty()) return false;  // a line without its end was never finished
    }
  } catch (const FileError& error) {
    throw OutputError(error.what());
  }
}

std::string checkpoint_problem(FileSystem& files, const std::filesystem::path& checkpoint) {
  if (std::string problem = verify_checkpoint(files, checkpoint); !problem.empty()) return problem;
  for (const char* name : kRequiredFiles) {
    if (!files.is_file(checkpoint / name)) return std::string(name) + ": missing";
  }
  try {
    (void)read_run_record(files, checkpoint);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

bool is_checkpoint_folder(FileSystem& files, const std::filesystem::path& folder) {
  const std::string name = plain(folder).filename().string();
  return files.is_file(folder / kManifestName) || files.is_file(folder / kRunRecordName) ||
         step_of_folder_name(name).has_value();
}

}  // namespace mgtrain
