// A file of a data set read from its beginning, raw or gzip-compressed: told by its content, not by its name. Nothing
// is allocated for what a header only claims.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mgtrain {

class DataFile {
 public:
  /// Throws DataError for a file that is missing, no regular file, unreadable or empty.
  explicit DataFile(std::filesystem::path path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  /// The next bytes, as they are without compression; fewer at the end. Throws DataError for damaged, cut or padded
  /// gzip data and for a failing disk.
  size_t read(std::span<uint8_t> out);
  /// At most `most` of the bytes that are left: allocates as they come.
  std::vector<uint8_t> read_up_to(uint64_t most);
  /// Bytes left, read and thrown away, counted up to `most`.
  uint64_t count_rest(uint64_t most);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool compressed() const { return compressed_; }
  /// Bytes on the disk.
  [[nodiscard]] uint64_t stored_bytes() const { return stored_bytes_; }
  /// No more bytes than this can come: those on the disk, or what gzip could have packed into them.
  [[nodiscard]] uint64_t most_bytes() const;

 private:
  struct Inflater;
  void open_and_sniff();
  size_t read_stored(std::span<uint8_t> out);

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool compressed_ = false;
  uint64_t stored_bytes_ = 0, delivered_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

/// What a file that does not start as its format demands seems to be ("; it is a Git LFS pointer: ..."), or nothing.
std::string guess_foreign(std::span<const uint8_t> begin);

}  // namespace mgtrain
