// pytorch/pytorch#116412, pytorch/examples#932: a missing or unreadable MNIST file ends in terminate() and a core dump.
#include <sys/wait.h>
#include <unistd.h>

#include "data/data_files.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

/// One line that names the path.
void check_refusal(const std::filesystem::path& path, const std::filesystem::path& named, const std::string& why) {
  const std::string message = refusal_of(data_at(path));
  CHECK_THAT(message, Contains(named.string()) && Contains(why));
  CHECK(message.find('\n') == std::string::npos);
}

}  // namespace

TEST_CASE("C++ 20: a data path that is missing, or a link to nothing, is a data error of one line", "[issues]") {
  const TemporaryFolder folder;
  check_refusal(folder.path() / "none", folder.path() / "none", "no such file or folder");
  check_refusal(folder.path() / "none" / "train-images-idx3-ubyte", folder.path() / "none", "no such file or folder");
  write_small_idx(folder.path());
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
  std::filesystem::create_symlink("nothing", folder.path() / "t10k-labels-idx1-ubyte");
  check_refusal(folder.path(), folder.path() / "t10k-labels-idx1-ubyte", "cannot be opened: No such file");
}

TEST_CASE("C++ 20: a folder in a file's place is a data error of one line", "[issues]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "data_batch_1.bin");
  check_refusal(folder.path(), folder.path() / "data_batch_1.bin", "is a folder");
  write_small_idx(folder.path() / "idx");
  std::filesystem::remove(folder.path() / "idx" / "train-labels-idx1-ubyte");
  std::filesystem::create_directory(folder.path() / "idx" / "train-labels-idx1-ubyte");
  check_refusal(folder.path() / "idx", folder.path() / "idx" / "train-images-idx3-ubyte", "there is no train-labels");
}

TEST_CASE("C++ 20: files and folders that may not be read are a data error", "[issues]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path() / "set");
  const auto labels = folder.path() / "set" / "train-labels-idx1-ubyte";
  const auto refused_without_rights = [&](const std::filesystem::path& closed) {
    const auto before = std::filesystem::status(closed).permissions();
    std::filesystem::permissions(closed, std::filesystem::perms::none);
    // Root may read all: the attempt is another user's.
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && (chown(folder.path().c_str(), 65534, 65534) != 0 || setuid(65534) != 0)) _exit(90);
      try {
        load(data_at(folder.path() / "set"));
        _exit(91);
      } catch (const DataError& error) {
        _exit(std::string(error.what()).find("ermission denied") != std::string::npos ? 0 : 92);
      } catch (...) {
        _exit(93);
      }
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    std::filesystem::permissions(closed, before);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(refused_without_rights(labels) == 0);
  CHECK(refused_without_rights(folder.path() / "set") == 0);
}

}  // namespace mgtrain::test
