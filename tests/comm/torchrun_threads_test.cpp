#include "comm/torchrun_threads.h"

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mgtrain {
namespace {

const Environment kRank = {{"TORCHELASTIC_RUN_ID", "none"}, {"LOCAL_WORLD_SIZE", "2"}, {"OMP_NUM_THREADS", "1"}};

Environment rank_with(const std::string& name, const std::string& value) {
  Environment environment = kRank;
  environment[name] = value;
  return environment;
}

/// A /proc of three processes: this one (30), its parent (20), and that one's parent (10).
class FakeProc {
 public:
  FakeProc() {
    process("self", 20, kRank);
    process("20", 10, kRank);
  }
  void process(const std::string& name, int parent, const Environment& environment) {
    const auto folder = folder_.path() / name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "status") << "Name:\tmgtrain\nPid:\t30\nPPid:\t" << parent << "\nUid:\t0\n";
    std::ofstream file(folder / "environ", std::ios::binary);
    for (const auto& [variable, value] : environment) file << variable << '=' << value << '\0';
  }
  [[nodiscard]] std::string path() const { return folder_.path().string(); }

 private:
  test::TemporaryFolder folder_;
};

TEST_CASE("OMP_NUM_THREADS=1 under torchrun is torchrun's, unless torchrun was started with it", "[comm]") {
  CHECK(threads_set_by_torchrun(kRank, Environment{{"PATH", "/bin"}}));
  CHECK_FALSE(threads_set_by_torchrun(kRank, Environment{{"OMP_NUM_THREADS", "1"}}));
  CHECK(threads_set_by_torchrun(kRank, std::nullopt));
}

TEST_CASE("threads that torchrun cannot have set are the user's", "[comm]") {
  CHECK_FALSE(threads_set_by_torchrun({{"OMP_NUM_THREADS", "1"}}, std::nullopt));
  CHECK_FALSE(threads_set_by_torchrun(rank_with("OMP_NUM_THREADS", "2"), std::nullopt));
  CHECK_FALSE(threads_set_by_torchrun(rank_with("LOCAL_WORLD_SIZE", "1"), std::nullopt));
  CHECK_FALSE(threads_set_by_torchrun({{"TORCHELASTIC_RUN_ID", "none"}, {"LOCAL_WORLD_SIZE", "2"}}, std::nullopt));
}

TEST_CASE("the launcher is the nearest ancestor without torchrun's variables", "[comm]") {
  FakeProc proc;
  proc.process("10", 1, {{"OMP_NUM_THREADS", "1"}, {"PATH", "/bin:/usr/bin"}});
  CHECK(environment_of_launcher(proc.path()) == Environment{{"OMP_NUM_THREADS", "1"}, {"PATH", "/bin:/usr/bin"}});
}

TEST_CASE("a launcher that cannot be looked at is not known", "[comm]") {
  FakeProc proc;  // without process 10
  CHECK(environment_of_launcher(proc.path()) == std::nullopt);
  CHECK(environment_of_launcher(proc.path() + "/nowhere") == std::nullopt);
}

}  // namespace
}  // namespace mgtrain
