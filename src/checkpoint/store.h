// How a checkpoint reaches the disk and comes back: folders step-NNNNNNNN, committed atomically, verified by
// manifest.json (docs/checkpoint-format.md). Knows only files. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/log.h"

namespace mgtrain {

/// A file of a checkpoint: its name and what writes it.
struct CheckpointFile {
  std::string name;
  std::function<void(WritableFile&)> write;
};

class CheckpointStore {
 public:
  /// `run`: the run folder; checkpoints lie in run/checkpoints, the best one in run/best.
  CheckpointStore(FileSystem& files, std::filesystem::path run, int64_t keep);

  /// Commits a checkpoint of `step`: temporary folder -> files fsynced -> manifest -> re-read and verified -> folder
  /// fsynced -> renamed -> parent fsynced -> only then older ones beyond `keep` deleted. Returns its bytes. Throws
  /// OutputError (path; for a full disk needed and free bytes) and leaves no temporary folder behind.
  uint64_t commit(int64_t step, const std::vector<CheckpointFile>& checkpoint);

  /// Replaces best/ by hard links to the committed checkpoint of `step` (copies where links are refused), atomically.
  void set_best(int64_t step);

  /// Committed (not temporary) step folders, newest first, valid or not.
  [[nodiscard]] std::vector<std::filesystem::path> list() const;

  /// Removes leftovers of interrupted commits.
  void remove_temporary();

 private:
  FileSystem& files_;
  std::filesystem::path run_;
  int64_t keep_;
};

/// Whether a checkpoint folder matches its manifest: empty text, or what is wrong ("model.safetensors: 1024 bytes,
/// manifest says 2048").
std::string verify_checkpoint(FileSystem& files, const std::filesystem::path& checkpoint);

/// XXH3-128 as 32 hex digits, streaming.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgtrain
