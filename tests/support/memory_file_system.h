// A file system in memory that can fail or die at its n-th operation and forget what was not synced, as a machine
// does that loses power. Contents reach the disk by sync(), names by sync_directory(). One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace mgtrain::test {

/// Thrown by the operation at which the process "dies" and by all after it, until restart().
struct ProcessDied {};

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  /// What the disk holds after the process died.
  enum class Survives {
    kAll,        // only the process died
    kSynced,     // contents and names that were synced
    kNamesOnly,  // every name, but only contents that were synced (ext4 in its writeback mode)
  };

  /// Operations so far: each call that may fail; remove_all() counts every entry it removes.
  [[nodiscard]] int64_t operations() const { return operations_; }
  /// The n-th operation from now (1: the next) fails with this error; a write gets half its bytes in.
  void fail_operation(int64_t n, int error_number);
  /// The n-th operation from now kills the process half-way through.
  void die_at_operation(int64_t n);
  void restart(Survives survives);

  /// Whether a removal reaches the disk at once, before any rename that waits for its sync: nothing forbids that.
  void set_eager_removal(bool eager) { eager_removal_ = eager; }
  /// Bytes all files may hold together; beyond, a write takes what fits and fails with ENOSPC.
  void set_capacity(uint64_t bytes) { capacity_ = bytes; }
  /// Called as a file is created, by the thread that does it: to hold it up.
  void set_before_create(std::function<void()> call) { before_create_ = std::move(call); }
  void set_hard_links(bool supported) { hard_links_ = supported; }
  void set_exchange(bool supported) { exchange_ = supported; }

  /// Makes folders and the file, all of it synced. Not an operation.
  void put(const Path& file, const std::string& content);
  [[nodiscard]] std::string get(const Path& file) const;
  /// Every file below, as paths relative to `directory`, sorted. Not an operation.
  [[nodiscard]] std::vector<std::string> tree(const Path& directory) const;
  /// Whether two paths are hard links to one file.
  [[nodiscard]] bool same_file(const Path& one, const Path& other) const;

  std::unique_ptr<WritableFile> create(const Path& file) override;
  std::unique_ptr<WritableFile> append(const Path& file) override;
  std::vector<std::byte> read(const Path& file, uint64_t offset, uint64_t length) override;
  uint64_t size(const Path& file) override;
  bool is_file(const Path& path) override;
  bool is_directory(const Path& path) override;
  std::vector<std::string> list(const Path& directory) override;
  void make_directories(const Path& directory) override;
  void rename(const Path& from, const Path& to) override;
  bool exchange(const Path& one, const Path& other) override;
  void hard_link(const Path& existing, const Path& link) override;
  void truncate(const Path& file, uint64_t length) override;
  void remove_all(const Path& path) override;
  void sync_directory(const Path& directory) override;
  uint64_t free_bytes(const Path& path) override;

 private:
  struct Node;
  class File;
  using NodePtr = std::shared_ptr<Node>;

  /// Counts an operation; throws when it is the one to fail or to die at. `half`: what a dying one still does.
  template <typename Half>
  void begin(const Path& path, const char* operation, Half half);
  void begin(const Path& path, const char* operation);
  void must_live() const;
  [[nodiscard]] NodePtr find(const Path& path) const;
  [[nodiscard]] NodePtr parent_of(const Path& path, const char* operation) const;
  [[nodiscard]] NodePtr file_at(const Path& path, const char* operation) const;
  void write(Node& node, const Path& path, std::span<const std::byte> bytes);
  void put_bytes(Node& node, std::span<const std::byte> bytes);
  void remove_children(const Path& path, Node& directory);
  void remove_entry(Node& directory, const std::string& name);
  [[nodiscard]] uint64_t used() const;

  NodePtr root_;
  int64_t operations_ = 0;
  int64_t failing_ = 0, dying_ = 0;  // numbers of operations; 0: none
  int error_number_ = 0;
  bool dead_ = false;
  uint64_t capacity_ = uint64_t{1} << 40;
  std::function<void()> before_create_;
  bool hard_links_ = true, exchange_ = true, eager_removal_ = false;
};

}  // namespace mgtrain::test
