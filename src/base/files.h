// The FileSystem seam: every outside effect of saving and loading goes through it, so that tests use a memory
// file system, fail the n-th operation or drop unsynced data. All methods may be called from any thread.
// Errors: FileError, with the path, the operation and the system's reason; callers translate it into the error
// kind of their domain (CheckpointError, DataError, OutputError).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mgtrain {

/// "cannot write runs/a/log.txt: No space left on device".
class FileError : public std::runtime_error {
 public:
  FileError(std::filesystem::path path, std::string operation, int error_number);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& operation() const { return operation_; }
  [[nodiscard]] int error_number() const { return error_number_; }
  /// Whether room was what was missing: a full disk, a quota or a file-size limit.
  [[nodiscard]] bool disk_full() const;

 private:
  std::string operation_;
  std::filesystem::path path_;
  int error_number_;
};

/// An open file being written. Destroying it without close() abandons the file as it is.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Forces the contents to stable storage (fsync).
  virtual void sync() = 0;
  virtual void close() = 0;
};

class FileSystem {
 public:
  using Path = std::filesystem::path;
  virtual ~FileSystem() = default;

  /// Creates or truncates / opens for appending.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> create(const Path& file) = 0;
  [[nodiscard]] virtual std::unique_ptr<WritableFile> append(const Path& file) = 0;
  /// Reads `length` bytes at `offset`; fewer at the end of the file. Allocates no more than the file holds.
  [[nodiscard]] virtual std::vector<std::byte> read(const Path& file, uint64_t offset, uint64_t length) = 0;
  [[nodiscard]] virtual uint64_t size(const Path& file) = 0;
  /// Links are followed; what cannot be looked at is neither.
  [[nodiscard]] virtual bool is_file(const Path& path) = 0;
  [[nodiscard]] virtual bool is_directory(const Path& path) = 0;
  /// Names (not paths) of the entries of a directory, sorted bytewise.
  [[nodiscard]] virtual std::vector<std::string> list(const Path& directory) = 0;
  virtual void make_directories(const Path& directory) = 0;
  /// Replaces a file, or an empty directory, that stands at `to`.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Swaps two existing paths in one atomic step; false, and nothing done, where the file system cannot.
  [[nodiscard]] virtual bool exchange(const Path& /*one*/, const Path& /*other*/) { return false; }
  virtual void hard_link(const Path& existing, const Path& link) = 0;
  virtual void truncate(const Path& file, uint64_t length) = 0;
  /// Removes a file or a whole directory; nothing there is not an error.
  virtual void remove_all(const Path& path) = 0;
  virtual void sync_directory(const Path& directory) = 0;
  /// Bytes an unprivileged user may still write on the mount that holds `path` (or its nearest existing parent).
  [[nodiscard]] virtual uint64_t free_bytes(const Path& path) = 0;
};

/// The real one (POSIX).
std::unique_ptr<FileSystem> make_posix_file_system();

/// The whole file as text / writes it whole (not atomic).
std::string read_text(FileSystem& files, const std::filesystem::path& file);
void write_text(FileSystem& files, const std::filesystem::path& file, std::string_view text);

}  // namespace mgtrain
