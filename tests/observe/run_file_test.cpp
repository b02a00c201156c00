#include "observe/run_file.h"

#include "base/error.h"
#include "observe/fake_files.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

TEST_CASE("a new run file starts empty, also where an old one lay", "[observe]") {
  FakeFiles files;
  files.content["run/a"] = "old";
  RunFile file(files, "run/a", std::nullopt);
  CHECK(file.length() == 0);
  file.write("new");
  CHECK(files.content["run/a"] == "new");
  CHECK(file.length() == 3);
}

TEST_CASE("a resumed run file is cut back to the recorded length before it grows", "[observe]") {
  FakeFiles files;
  files.content["run/a"] = "one\ntwo\nthr";
  RunFile file(files, "run/a", 4);
  CHECK(files.content["run/a"] == "one\n");
  file.write("deux\n");
  CHECK(files.content["run/a"] == "one\ndeux\n");
  CHECK(file.length() == 9);
}

TEST_CASE("a resumed run file that is missing or shorter is taken as it is", "[observe]") {
  FakeFiles files;
  files.content["run/short"] = "one\n";
  RunFile shorter(files, "run/short", 100), missing(files, "run/missing", 100);
  CHECK(shorter.length() == 4);
  CHECK(missing.length() == 0);
  CHECK(files.content["run/short"] == "one\n");
  CHECK(files.is_file("run/missing"));
}

TEST_CASE("a full disk is an output error that names the file and the free bytes, and leaves whole records",
          "[observe]") {
  FakeFiles files;
  RunFile file(files, "run/a", std::nullopt);
  file.write("first record\n");
  files.space = 5;
  try {
    file.write("second record\n");
    FAIL("no error");
  } catch (const OutputError& error) {
    const std::string message = error.what();
    CHECK(error.code() == ExitCode::kOutput);
    CHECK(message.find("run/a") != std::string::npos);
    CHECK(message.find("0 bytes free") != std::string::npos);
    CHECK(message.find("make room") != std::string::npos);
  }
  CHECK(files.content["run/a"] == "first record\n");
  CHECK(file.length() == 13);
  files.space = 1000;
  file.write("third record\n");
  CHECK(files.content["run/a"] == "first record\nthird record\n");
}

TEST_CASE("replacing a file leaves the old content if the new cannot be written", "[observe]") {
  FakeFiles files;
  replace_file(files, "run/s", "old");
  CHECK(files.content["run/s"] == "old");
  files.space = 2;
  CHECK_THROWS_AS(replace_file(files, "run/s", "newer"), OutputError);
  CHECK(files.content["run/s"] == "old");
  files.space = 100;
  replace_file(files, "run/s", "newer");
  CHECK(files.content["run/s"] == "newer");
  CHECK(files.list("run") == std::vector<std::string>{"s"});
}

}  // namespace
}  // namespace mgtrain
