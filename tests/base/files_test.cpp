#include "base/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mgtrain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const FileError& error) {
    return error.what();
  }
  return "no FileError";
}

/// No file of this process may grow beyond `bytes` while the object lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limited{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

struct Disk {
  std::unique_ptr<FileSystem> files = make_posix_file_system();
  test::TemporaryFolder folder;
  fs::path at(const std::string& name) const { return folder.path() / name; }
};

TEST_CASE("a file is written, appended to, read in parts and cut", "[base]") {
  Disk disk;
  const fs::path file = disk.at("a.txt");
  const auto output = disk.files->create(file);
  output->write(bytes_of("hello "));
  output->write(bytes_of(""));
  output->write(bytes_of("world"));
  output->sync();
  output->close();
  CHECK(read_text(*disk.files, file) == "hello world");
  CHECK(disk.files->size(file) == 11);

  const auto more = disk.files->append(file);
  more->write(bytes_of("!"));
  more->close();
  CHECK(text_of(disk.files->read(file, 6, 100)) == "world!");
  CHECK(text_of(disk.files->read(file, 2, 3)) == "llo");
  CHECK(disk.files->read(file, 12, 5).empty());
  CHECK(disk.files->read(file, uint64_t{1} << 40, 5).empty());

  disk.files->truncate(file, 5);
  CHECK(read_text(*disk.files, file) == "hello");
  disk.files->create(file)->close();
  CHECK(read_text(*disk.files, file).empty());
}

TEST_CASE("reading allocates what the file holds, whatever length is asked for", "[base]") {
  Disk disk;
  write_text(*disk.files, disk.at("a"), "abc");
  CHECK(text_of(disk.files->read(disk.at("a"), 1, ~uint64_t{0})) == "bc");
  CHECK(disk.files->read(disk.at("a"), ~uint64_t{0}, ~uint64_t{0}).empty());
}

TEST_CASE("a file of /proc, which has no size, is read whole", "[base]") {
  Disk disk;
  CHECK_THAT(read_text(*disk.files, "/proc/self/status"), Contains("Pid:"));
}

TEST_CASE("folders are made, listed in byte order, renamed and removed", "[base]") {
  Disk disk;
  disk.files->make_directories(disk.at("x/y"));
  disk.files->make_directories(disk.at("x/y"));
  for (const char* name : {"b", "B", "a", "\xc3\xa4", ".hidden"}) write_text(*disk.files, disk.at("x") / name, "1");
  CHECK(disk.files->list(disk.at("x")) == std::vector<std::string>{".hidden", "B", "a", "b", "y", "\xc3\xa4"});
  CHECK(disk.files->is_directory(disk.at("x/y")));
  CHECK_FALSE(disk.files->is_file(disk.at("x/y")));
  CHECK(disk.files->is_file(disk.at("x/a")));
  CHECK_FALSE(disk.files->is_directory(disk.at("x/a")));
  CHECK_FALSE(disk.files->is_file(disk.at("none")));

  disk.files->rename(disk.at("x"), disk.at("z"));
  disk.files->sync_directory(disk.folder.path());
  CHECK(disk.files->list(disk.folder.path()) == std::vector<std::string>{"z"});
  disk.files->remove_all(disk.at("z"));
  disk.files->remove_all(disk.at("z"));
  CHECK(disk.files->list(disk.folder.path()).empty());
}

TEST_CASE("removing a folder leaves what its links point to", "[base]") {
  Disk disk;
  disk.files->make_directories(disk.at("kept"));
  write_text(*disk.files, disk.at("kept/a"), "1");
  disk.files->make_directories(disk.at("gone"));
  fs::create_directory_symlink(disk.at("kept"), disk.at("gone/link"));
  disk.files->remove_all(disk.at("gone"));
  CHECK(read_text(*disk.files, disk.at("kept/a")) == "1");
}

TEST_CASE("a hard link is the same file under two names", "[base]") {
  Disk disk;
  write_text(*disk.files, disk.at("a"), "one");
  disk.files->hard_link(disk.at("a"), disk.at("b"));
  CHECK(fs::hard_link_count(disk.at("a")) == 2);
  disk.files->remove_all(disk.at("a"));
  CHECK(read_text(*disk.files, disk.at("b")) == "one");
  write_text(*disk.files, disk.at("c"), "");
  CHECK_THAT(message_of([&] { disk.files->hard_link(disk.at("b"), disk.at("c")); }), Contains("File exists"));
}

TEST_CASE("two folders change places", "[base]") {
  Disk disk;
  for (const char* name : {"old", "new"}) {
    disk.files->make_directories(disk.at(name));
    write_text(*disk.files, disk.at(name) / "which", name);
  }
  // A file system without the call says so and leaves things as they are.
  const bool swapped = disk.files->exchange(disk.at("old"), disk.at("new"));
  CHECK(read_text(*disk.files, disk.at("old/which")) == (swapped ? "new" : "old"));
  CHECK(read_text(*disk.files, disk.at("new/which")) == (swapped ? "old" : "new"));
  CHECK_THROWS_AS(disk.files->exchange(disk.at("old"), disk.at("none")), FileError);
}

TEST_CASE("errors name the operation, the path and the system's reason", "[base]") {
  Disk disk;
  const fs::path none = disk.at("none"), folder = disk.folder.path();
  CHECK(message_of([&] { (void)disk.files->size(none); }) ==
        "cannot look at " + none.string() + ": No such file or directory");
  CHECK(message_of([&] { (void)disk.files->read(none, 0, 1); }) ==
        "cannot open " + none.string() + ": No such file or directory");
  CHECK(message_of([&] { (void)disk.files->read(folder, 0, 1); }) ==
        "cannot read " + folder.string() + ": Is a directory");
  CHECK(message_of([&] { (void)disk.files->size(folder); }) ==
        "cannot look at " + folder.string() + ": Is a directory");
  CHECK(message_of([&] { (void)disk.files->create(folder); }) ==
        "cannot create " + folder.string() + ": Is a directory");
  CHECK_THAT(message_of([&] { (void)disk.files->list(none); }), Contains("cannot list"));
  CHECK_THAT(message_of([&] { disk.files->rename(none, disk.at("b")); }),
             Contains("cannot rename to b " + none.string()));
  CHECK_THAT(message_of([&] { disk.files->truncate(none, 1); }), Contains("No such file"));
  CHECK_THAT(message_of([&] { disk.files->sync_directory(none); }), Contains("No such file"));
  write_text(*disk.files, disk.at("file"), "");
  CHECK_THAT(message_of([&] { disk.files->make_directories(disk.at("file")); }), Contains("Not a directory"));
  CHECK_THAT(message_of([&] { disk.files->make_directories(disk.at("file/below")); }), Contains("Not a directory"));
}

TEST_CASE("a named pipe is an error at once, not a wait", "[base]") {
  Disk disk;
  REQUIRE(mkfifo(disk.at("pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(disk.files->read(disk.at("pipe"), 0, 1), FileError);
  CHECK_FALSE(disk.files->is_file(disk.at("pipe")));
}

TEST_CASE("a full disk, a quota and a file-size limit count as full", "[base]") {
  CHECK(FileError("f", "write", ENOSPC).disk_full());
  CHECK(FileError("f", "write", EDQUOT).disk_full());
  CHECK(FileError("f", "write", EFBIG).disk_full());
  CHECK_FALSE(FileError("f", "write", EIO).disk_full());
}

TEST_CASE("a full device is an error of the write that meets it", "[base]") {
  Disk disk;
  const auto output = disk.files->create("/dev/full");
  try {
    output->write(bytes_of("x"));
    FAIL("the full device was not noticed");
  } catch (const FileError& error) {
    CHECK(std::string(error.what()) == "cannot write /dev/full: No space left on device");
    CHECK(error.disk_full());
  }
}

TEST_CASE("a write that stops short at a file-size limit is an error with what fitted on disk", "[base]") {
  Disk disk;
  const std::string block(1000, 'x');
  const auto output = disk.files->create(disk.at("a"));
  {
    const FileSizeLimit limit(1500);
    output->write(bytes_of(block));
    try {
      output->write(bytes_of(block));
      FAIL("the limit was not noticed");
    } catch (const FileError& error) {
      CHECK(error.disk_full());
      CHECK(error.operation() == "write");
    }
  }
  output->close();
  CHECK(disk.files->size(disk.at("a")) == 1500);
}

TEST_CASE("free space is that of the nearest folder that exists", "[base]") {
  Disk disk;
  const uint64_t here = disk.files->free_bytes(disk.folder.path());
  CHECK(here > 0);
  // Other programs write too: the same mount, not the same number.
  const uint64_t below = disk.files->free_bytes(disk.at("not/yet/made"));
  CHECK(below > here / 2);
  CHECK(disk.files->free_bytes("relative/not/made") > 0);
}

}  // namespace
}  // namespace mgtrain
