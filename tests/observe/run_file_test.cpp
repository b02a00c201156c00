#include "observe/run_file.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;

TEST_CASE("a new run file starts empty, also where an old one lay", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.put("run/a", "old");
  RunFile file(files, "run/a", std::nullopt);
  CHECK(file.length() == 0);
  file.write("new");
  CHECK(files.get("run/a") == "new");
  CHECK(file.length() == 3);
}

TEST_CASE("a resumed run file is cut back to the recorded length before it grows", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.put("run/a", "one\ntwo\nthr");
  RunFile file(files, "run/a", 4);
  CHECK(files.get("run/a") == "one\n");
  file.write("deux\n");
  CHECK(files.get("run/a") == "one\ndeux\n");
  CHECK(file.length() == 9);
}

TEST_CASE("a resumed run file that is missing or shorter is taken as it is", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.put("run/short", "one\n");
  RunFile shorter(files, "run/short", 100), missing(files, "run/missing", 100);
  CHECK(shorter.length() == 4);
  CHECK(missing.length() == 0);
  CHECK(files.get("run/short") == "one\n");
  CHECK(files.is_file("run/missing"));
}

TEST_CASE("a full disk is an output error that names the file and the free bytes, and leaves whole records",
          "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  RunFile file(files, "run/a", std::nullopt);
  file.write("first record\n");
  files.set_capacity(18);
  try {
    file.write("second record\n");
    FAIL("no error");
  } catch (const OutputError& error) {
    const std::string message = error.what();
    CHECK(error.code() == ExitCode::kOutput);
    CHECK(message.find("run/a") != std::string::npos);
    CHECK(message.find(" bytes free") != std::string::npos);
    CHECK(message.find("make room") != std::string::npos);
  }
  CHECK(files.get("run/a") == "first record\n");
  CHECK(file.length() == 13);
  files.set_capacity(1000);
  file.write("third record\n");
  CHECK(files.get("run/a") == "first record\nthird record\n");
}

TEST_CASE("replacing a file leaves the old content if the new cannot be written", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  replace_file(files, "run/s", "old");
  CHECK(files.get("run/s") == "old");
  files.set_capacity(5);
  CHECK_THROWS_AS(replace_file(files, "run/s", "newer"), OutputError);
  CHECK(files.get("run/s") == "old");
  files.set_capacity(100);
  replace_file(files, "run/s", "newer");
  CHECK(files.get("run/s") == "newer");
  CHECK(files.list("run") == std::vector<std::string>{"s"});
}

}  // namespace
}  // namespace mgtrain
