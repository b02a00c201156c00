// How a checkpoint reaches the disk and comes back: folders step-NNNNNNNN, committed atomically, verified by
// manifest.json (docs/checkpoint-format.md). Knows only files. Not thread-safe; one store writes to a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/checksum.h"
#include "checkpoint/manifest.h"

namespace mgtrain {

/// A file of a checkpoint: its name, what writes it, and how large it will be.
struct CheckpointFile {
  std::string name;
  std::function<void(WritableFile&)> write;
  uint64_t bytes = 0;  // for the message about a full disk; 0: not known
};

class CheckpointStore {
 public:
  /// `run`: the run folder; checkpoints lie in run/checkpoints, the best one in run/best. `keep`: at least 2.
  CheckpointStore(FileSystem& files, std::filesystem::path run, int64_t keep);

  /// Commits a checkpoint of `step`: temporary folder -> files fsynced -> manifest -> re-read and verified -> folder
  /// fsynced -> renamed -> parent fsynced -> only then removed: older ones beyond `keep`, and newer ones, which an
  /// abandoned part of the run left. One of the same step is replaced atomically. Returns its bytes. Throws
  /// OutputError (path; for a full disk needed and free bytes), or what a `write` throws, and leaves no temporary
  /// folder behind.
  uint64_t commit(int64_t step, const std::vector<CheckpointFile>& checkpoint);

  /// Replaces best/ by hard links to the committed checkpoint of `step` (copies where links are refused), atomically;
  /// nothing to do if it is that already. Throws OutputError.
  void set_best(int64_t step);

  /// Committed (not temporary) step folders, newest first, valid or not.
  [[nodiscard]] std::vector<std::filesystem::path> list() const;
  /// Where the checkpoint of `step` lies once it is committed.
  [[nodiscard]] std::filesystem::path folder_of(int64_t step) const;

  /// Removes leftovers of interrupted commits, and puts back what an interrupted replacement had set aside.
  void remove_temporary();

 private:
  void replace(const std::filesystem::path& staged, const std::filesystem::path& final_place);
  uint64_t write_files(const std::filesystem::path& folder, const std::vector<CheckpointFile>& checkpoint,
                       uint64_t& written);
  void remove_outdated(int64_t step);

  FileSystem& files_;
  std::filesystem::path run_;
  int64_t keep_;
};

/// "step-00000010".
std::string step_folder_name(int64_t step);
/// The step of a folder name that step_folder_name() gives; nothing for any other name.
std::optional<int64_t> step_of_folder_name(const std::string& name);
/// Committed step folders of a run, newest first, valid or not; none if there is no such run.
std::vector<std::filesystem::path> step_folders(FileSystem& files, const std::filesystem::path& run);

/// best/ of a run: the folder itself, or the former one if the process died while it was being replaced on a file
/// system that cannot exchange two folders; nothing if there is none.
std::optional<std::filesystem::path> find_best(FileSystem& files, const std::filesystem::path& run);
/// Puts back every folder of a run that an interrupted replacement had set aside.
void restore_set_aside(FileSystem& files, const std::filesystem::path& run);

}  // namespace mgtrain
