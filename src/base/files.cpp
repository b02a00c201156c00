#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

namespace mgtrain {

namespace fs = std::filesystem;

namespace {

// One system call moves at most this much; Linux itself stops short of 2 GiB.
constexpr size_t kLargestTransfer = size_t{1} << 30;
constexpr size_t kUnknownSizeChunk = size_t{64} << 10;
constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE

/// Repeats a call that a signal interrupted.
template <typename Call>
auto uninterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

void check_code(const std::error_code& code, const fs::path& path, const char* operation) {
  if (code) throw FileError(path, operation, code.value());
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, const char* operation, int flags)
      : value_(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
    if (value_ == -1) throw FileError(path, operation, errno);
  }
  ~Descriptor() {
    if (value_ != -1) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

class PosixFile final : public WritableFile {
 public:
  PosixFile(fs::path path, const char* operation, int flags) : path_(std::move(path)), file_(path_, operation, flags) {}

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const size_t length = std::min(bytes.size(), kLargestTransfer);
      const ssize_t written = uninterrupted([&] { return ::write(file_.get(), bytes.data(), length); });
      if (written == -1) throw FileError(path_, "write", errno);
      // Nothing written and no reason given: the next call would loop.
      if (written == 0) throw FileError(path_, "write", EIO);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  void sync() override {
    if (uninterrupted([&] { return ::fsync(file_.get()); }) == -1) throw FileError(path_, "sync", errno);
  }

  void close() override {
    const int descriptor = file_.release();
    // On Linux the descriptor is gone even when close() is interrupted.
    if (descriptor != -1 && ::close(descriptor) == -1 && errno != EINTR) throw FileError(path_, "close", errno);
  }

 private:
  fs::path path_;
  Descriptor file_;
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const Path& file) override {
    return std::make_unique<PosixFile>(file, "create", O_WRONLY | O_CREAT | O_TRUNC);
  }

  std::unique_ptr<WritableFile> append(const Path& file) override {
    return std::make_unique<PosixFile>(file, "open", O_WRONLY | O_CREAT | O_APPEND);
  }

  std::vector<std::byte> read(const Path& file, uint64_t offset, uint64_t length) override {
    // O_NONBLOCK: a named pipe is an error at once and not a wait for a writer.
    const Descriptor input(file, "open", O_RDONLY | O_NONBLOCK);
    struct stat status {};
    if (::fstat(input.get(), &status) == -1) throw FileError(file, "read", errno);
    if (S_ISDIR(status.st_mode)) throw FileError(file, "read", EISDIR);

    const auto size = static_cast<uint64_t>(status.st_size);
    std::vector<std::byte> bytes;
    if (size > 0) length = offset < size ? std::min(length, size - offset) : 0;
    while (bytes.size() < length) {
      const size_t begin = bytes.size();
      // A file of /proc says it is empty and is not: its size is learnt by reading.
      const uint64_t wanted = size > 0 ? length - begin : std::min<uint64_t>(length - begin, kUnknownSizeChunk);
      const size_t part = std::min<uint64_t>(wanted, kLargestTransfer);
      bytes.resize(begin + part);
      const ssize_t count = uninterrupted(
          [&] { return ::pread(input.get(), bytes.data() + begin, part, static_cast<off_t>(offset + begin)); });
      if (count == -1) throw FileError(file, "read", errno);
      bytes.resize(begin + static_cast<size_t>(count));
      if (count == 0) break;
    }
    return bytes;
  }

  uint64_t size(const Path& file) override {
    struct stat status {};
    if (::stat(file.c_str(), &status) == -1) throw FileError(file, "look at", errno);
    if (S_ISDIR(status.st_mode)) throw FileError(file, "look at", EISDIR);
    return static_cast<uint64_t>(status.st_size);
  }

  bool is_file(const Path& path) override {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  }

  bool is_directory(const Path& path) override {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  }

  std::vector<std::string> list(const Path& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
    if (!stream) throw FileError(directory, "list", errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) throw FileError(directory, "list", errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  void make_directories(const Path& directory) override {
    std::error_code code;
    fs::create_directories(directory, code);
    check_code(code, directory, "create the folder");
    if (!is_directory(directory)) throw FileError(directory, "create the folder", ENOTDIR);
  }

  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) == -1) throw FileError(from, "rename to " + to.filename().string(), errno);
  }

  bool exchange(const Path& one, const Path& other) override {
    // By number: C libraries before glibc 2.28 have no renameat2().
    if (::syscall(SYS_renameat2, AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), kExchange) == 0) return true;
    if (errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP || errno == EPERM) return false;
    throw FileError(one, "exchange with " + other.filename().string(), errno);
  }

  void hard_link(const Path& existing, const Path& link) override {
    if (::link(existing.c_str(), link.c_str()) == -1) throw FileError(link, "create the hard link", errno);
  }

  void truncate(const Path& file, uint64_t length) override {
    if (length > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) throw FileError(file, "truncate", EFBIG);
    if (uninterrupted([&] { return ::truncate(file.c_str(), static_cast<off_t>(length)); }) == -1)
      throw FileError(file, "truncate", errno);
  }

  void remove_all(const Path& path) override {
    std::error_code code;
    fs::remove_all(path, code);
    check_code(code, path, "remove");
  }

  void sync_directory(const Path& directory) override {
    const Descriptor opened(directory, "open", O_RDONLY | O_DIRECTORY);
    // Some network file systems cannot sync a folder, and say so: there is then nothing to wait for.
    if (uninterrupted([&] { return ::fsync(opened.get()); }) == -1 && errno != EINVAL && errno != EOPNOTSUPP)
      throw FileError(directory, "sync", errno);
  }

  uint64_t free_bytes(const Path& path) override {
    std::error_code code;
    Path existing = fs::absolute(path, code);
    check_code(code, path, "look at");
    struct statvfs status {};
    while (uninterrupted([&] { return ::statvfs(existing.c_str(), &status); }) == -1) {
      const bool has_parent = existing.has_relative_path();
      if ((errno != ENOENT && errno != ENOTDIR) || !has_parent) throw FileError(path, "find the free space of", errno);
      existing = existing.parent_path();
    }
    return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  }
};

}  // namespace

FileError::FileError(std::filesystem::path path, std::string operation, int error_number)
    : std::runtime_error("cannot " + operation + " " + path.string() + ": " +
                         std::generic_category().message(error_number)),
      operation_(std::move(operation)),
      path_(std::move(path)),
      error_number_(error_number) {}

bool FileError::disk_full() const {
  return error_number_ == ENOSPC || error_number_ == EDQUOT || error_number_ == EFBIG;
}

std::unique_ptr<FileSystem> make_posix_file_system() { return std::make_unique<PosixFileSystem>(); }

std::string read_text(FileSystem& files, const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = files.read(file, 0, std::numeric_limits<uint64_t>::max());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_text(FileSystem& files, const std::filesystem::path& file, std::string_view text) {
  const std::unique_ptr<WritableFile> output = files.create(file);
  output->write(std::as_bytes(std::span(text.data(), text.size())));
  output->close();
}

}  // namespace mgtrain
