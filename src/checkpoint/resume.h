// Where a run goes on from, and whether it may: product.md's resume tables as pure functions. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/run_config.h"

namespace mgtrain {

struct ResumePoint {
  std::optional<std::filesystem::path> checkpoint;   // none: start at step 0
  std::filesystem::path run;                         // the run folder to go on in
  std::vector<std::string> notes, warnings;
};

/// `--resume auto` in `run`: the newest valid step-*; an invalid newer one is a warning; none committed: none, with
/// a note; some committed but none valid: CheckpointError.
ResumePoint resume_auto(FileSystem& files, const std::filesystem::path& run);
/// `--resume PATH`: a run folder or a checkpoint folder; must exist and be valid, else CheckpointError.
ResumePoint resume_from(FileSystem& files, const std::filesystem::path& path);
/// The checkpoint that eval and predict use: `checkpoint` ("", "best", "last", a step number or a path) of RUN
/// (a run folder or a checkpoint folder). "": best/ if there is one, else the newest valid. CheckpointError if none.
std::filesystem::path checkpoint_of_run(FileSystem& files, const std::filesystem::path& run, const std::string& checkpoint);

/// Whether `run` holds a run: its metrics.jsonl has a start event.
bool is_existing_run(FileSystem& files, const std::filesystem::path& run);

/// Compares the configuration a checkpoint was made with to the one asked for now.
struct ResumeChanges {
  std::vector<std::string> taken;      // said: "train.epochs: 10 -> 20 (...)"
  std::vector<std::string> recorded;   // only with resume_changes allow
};
/// Throws ConfigError (refused without allow; every difference listed) or CheckpointError (model, optimizer kind,
/// ...; every difference listed). `dataset_fingerprint_*`: compared as well.
ResumeChanges compare_for_resume(const RunConfig& saved, const RunConfig& now, bool allow_changes,
                                 const std::string& fingerprint_saved, const std::string& fingerprint_now);

}  // namespace mgtrain
