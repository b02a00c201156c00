// A growing file of the run folder: appended to, counted, and on resume cut back to the length a checkpoint
// recorded. What is written is with the operating system at once; sync() takes it to the disk. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "base/files.h"

namespace mgtrain {

class RunFile {
 public:
  /// Without `keep`: a new, empty file. With it: goes on in the file that is there, cut back to `keep` bytes first
  /// (a shorter one is taken as it is, a missing one is created). `file` lies in a folder that exists and is named
  /// in the path; `files` must outlive this object.
  /// All methods throw OutputError naming the path, the reason and the bytes free on that disk.
  RunFile(FileSystem& files, std::filesystem::path file, std::optional<uint64_t> keep);
  ~RunFile();

  /// Appends whole records; after a failure the file is cut back to the record before, as far as that is possible.
  void write(std::string_view bytes);
  /// Forces what was written to stable storage.
  void sync();

  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  FileSystem& files_;
  std::filesystem::path path_;
  std::unique_ptr<WritableFile> file_;
  uint64_t length_ = 0;
};

/// Writes `text` to `file` as a whole: a reader sees the old content or the new, never a part. Throws OutputError.
void replace_file(FileSystem& files, const std::filesystem::path& file, std::string_view text);

}  // namespace mgtrain
