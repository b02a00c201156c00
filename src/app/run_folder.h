// The run folder of --output, --resume and --overwrite: which one, what it goes on from, and its descriptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "checkpoint/run_record.h"

namespace mgtrain {

/// Where a run's files go and where it starts: decided before anything is written.
struct RunPlace {
  std::filesystem::path folder;                     // empty: a new default one, named when it is claimed
  std::optional<std::filesystem::path> checkpoint;  // none: step 0
  std::optional<RunRecord> record;                  // of the checkpoint
  std::filesystem::path from;                       // the run that the checkpoint belongs to, if it is another one
  bool cut_back = false;                            // files of the run are there and are cut back to the checkpoint
  bool start_over = false;                          // files of a run are there and are replaced
  std::vector<std::string> notes, warnings;
};

/// Throws ConfigError (a run is there and neither --resume nor --overwrite is given), CheckpointError.
RunPlace find_run_place(const CommandLine& line, AppContext& context);

/// Makes the folder (the default one: runs/<name>-<UTC>[-n], which no other process can claim too), proves that it can
/// be written, and removes what is to be started over. Throws OutputError naming the path.
std::filesystem::path claim_run_folder(const RunPlace& place, const std::string& name, AppContext& context);

/// What a checkpoint goes with is copied into another folder: the best checkpoint of the run it belongs to.
void carry_best_over(const RunPlace& place, const std::filesystem::path& folder, FileSystem& files);

}  // namespace mgtrain
