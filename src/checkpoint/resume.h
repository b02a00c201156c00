// Where a run goes on from, and which checkpoint eval and predict use. Torch-free. What may differ on a resume stands
// in resume_changes.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/resume_changes.h"

namespace mgtrain {

struct ResumePoint {
  std::optional<std::filesystem::path> checkpoint;  // none: start at step 0
  std::filesystem::path run;                        // the run folder to go on in; empty: the checkpoint lies in none
  std::vector<std::string> notes, warnings;
};

/// `--resume auto` in `run`: the newest valid step-*; an invalid newer one is a warning; none committed: none, with
/// a note; some committed but none valid: CheckpointError. Puts back what an interrupted save had set aside.
ResumePoint resume_auto(FileSystem& files, const std::filesystem::path& run);
/// `--resume PATH`: a run folder or a checkpoint folder; must exist and be valid, else CheckpointError.
ResumePoint resume_from(FileSystem& files, const std::filesystem::path& path);
/// The checkpoint that eval and predict use: `checkpoint` ("", "best", "last", a step number or a path) of RUN
/// (a run folder or a checkpoint folder). "": best/ if there is one, else the newest valid. CheckpointError if none,
/// or if the one asked for is damaged. `warnings`: damaged ones that were passed over.
std::filesystem::path checkpoint_of_run(FileSystem& files, const std::filesystem::path& run,
                                        const std::string& checkpoint, std::vector<std::string>* warnings = nullptr);

/// Whether `run` holds a run: its metrics.jsonl has a start event.
bool is_existing_run(FileSystem& files, const std::filesystem::path& run);

/// Whether a folder is a whole checkpoint of mgtrain: empty text, or what is wrong. verify_checkpoint(), and the files
/// that must be there, and run.json.
std::string checkpoint_problem(FileSystem& files, const std::filesystem::path& checkpoint);

/// Whether a folder looks like one checkpoint rather than a run: it has a manifest or run.json, or is named like one.
bool is_checkpoint_folder(FileSystem& files, const std::filesystem::path& folder);

}  // namespace mgtrain
