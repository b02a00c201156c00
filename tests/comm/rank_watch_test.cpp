// Processes that look after each other: several watches over one store in this process, and children of it that stand
// for the processes of ranks.
#include "comm/rank_watch.h"

#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "support/catch.h"
#include "support/sleeping_process.h"

using namespace mgtrain;
using namespace mgtrain::test;
using std::chrono::milliseconds;

namespace {

/// A store whose calls hang from a moment on, as those of a store in a stopped process do.
class HangingStore final : public c10d::HashStore {
 public:
  explicit HangingStore(std::shared_future<void> until) : until_(std::move(until)) {}
  std::atomic<bool> hangs{false};
  bool check(const std::vector<std::string>& keys) override {
    if (hangs) until_.wait();
    return HashStore::check(keys);
  }

 private:
  std::shared_future<void> until_;
};

/// Ranks with a process each, and what their watches did.
class Watched {
 public:
  explicit Watched(int ranks, milliseconds timeout = milliseconds(2000),
                   c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>())
      : store_(std::move(store)) {
    for (int rank = 0; rank < ranks; ++rank) {
      processes_.push_back(std::make_unique<SleepingProcess>());
      options_.cards.push_back(processes_.back()->card());
    }
    options_.timeout = timeout;
    options_.stop = [] { return 0; };
  }

  /// On another machine, where nobody sees its process.
  void move_away(int rank) { options_.cards[static_cast<size_t>(rank)].processes = "elsewhere"; }
  void on_stop(int (*stop)()) { options_.stop = stop; }

  RankWatch& start(int rank) {
    RankWatchOptions options = options_;
    options.holds_store = rank == 0;
    options.leave = [this, rank](const LaunchFailure& failure) {
      const std::lock_guard lock(mutex_);
      left_.emplace_back(rank, failure.message);
    };
    auto& watch = watches_[rank];
    watch = std::make_unique<RankWatch>(store_, rank, std::move(options));
    watch->set_devices({"cpu", "cpu", "cpu"});
    return *watch;
  }
  void stop(int rank) { watches_.erase(rank); }
  SleepingProcess& process(int rank) { return *processes_[static_cast<size_t>(rank)]; }
  std::vector<std::pair<int, std::string>> left() {
    const std::lock_guard lock(mutex_);
    return left_;
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::unique_ptr<SleepingProcess>> processes_;
  RankWatchOptions options_;
  std::mutex mutex_;
  std::vector<std::pair<int, std::string>> left_;
  std::map<int, std::unique_ptr<RankWatch>> watches_;
};

bool soon(const std::function<bool()>& happened) {
  for (int i = 0; i < 400; ++i) {
    if (happened()) return true;
    std::this_thread::sleep_for(milliseconds(25));
  }
  return false;
}

}  // namespace

TEST_CASE("a failure of one rank is known to all, and a later one does not take its place", "[comm]") {
  Watched run(3);
  RankWatch &first = run.start(0), &second = run.start(1), &third = run.start(2);
  const LaunchFailure own = third.explain(ExitCode::kOutOfMemory, "rank 2 (cpu): out of memory");
  CHECK(own.rank == 2);
  REQUIRE(soon([&] { return first.known_failure() && second.known_failure(); }));
  CHECK(first.known_failure()->message == "rank 2 (cpu): out of memory");
  // What another rank sees of it, a broken connection, is explained by it, with its exit code.
  const LaunchFailure echo = second.explain(ExitCode::kDevice, "connection closed by peer");
  CHECK(echo.rank == 2);
  CHECK(echo.code == ExitCode::kOutOfMemory);
  CHECK(first.explain(ExitCode::kOutput, "disk full").rank == 2);
}

TEST_CASE("an error of a rank's own is told at once, one that may be an echo after a look around", "[comm]") {
  Watched run(2);
  RankWatch &first = run.start(0), &second = run.start(1);
  const LaunchFailure failure = second.explain(ExitCode::kDevice, "rank 1 (cpu): failure on cpu");
  CHECK(failure.rank == 1);
  CHECK(failure.message == "rank 1 (cpu): failure on cpu");
  CHECK(soon([&] { return first.known_failure().has_value(); }));
}

TEST_CASE("ranks that look around at the same time take each other for alive", "[comm]") {
  Watched run(2);
  RankWatch &first = run.start(0), &second = run.start(1);
  auto other =
      std::async(std::launch::async, [&] { return second.explain(ExitCode::kDevice, "rank 1 (cpu): broken"); });
  const LaunchFailure failure = first.explain(ExitCode::kDevice, "rank 0 (cpu): broken");
  const LaunchFailure theirs = other.get();
  CHECK(failure.message == theirs.message);
  CHECK(failure.message.find("broken") != std::string::npos);
}

TEST_CASE("a rank that is killed is named by those that see its process, with its last step", "[comm]") {
  Watched run(2);
  RankWatch& first = run.start(0);
  RankWatch& second = run.start(1);
  second.at_step(37);
  std::this_thread::sleep_for(milliseconds(400));  // some beats
  CHECK_FALSE(first.known_failure());
  run.stop(1);
  run.process(1).send(SIGKILL);
  REQUIRE(soon([&] { return first.known_failure().has_value(); }));
  CHECK(first.known_failure()->rank == 1);
  CHECK(first.known_failure()->code == ExitCode::kDevice);
  CHECK(first.known_failure()->message.find("rank 1 (cpu) ended without a word") != std::string::npos);
  CHECK(first.known_failure()->message.find("last finished step is 37") != std::string::npos);
}

TEST_CASE("a rank that has done its part may end", "[comm]") {
  Watched run(2);
  RankWatch& first = run.start(0);
  run.start(1).finish();
  run.process(1).send(SIGKILL);
  std::this_thread::sleep_for(milliseconds(1000));
  CHECK_FALSE(first.known_failure());
  first.finish();
}

TEST_CASE("of ranks that do not answer, the stopped one is named", "[comm]") {
  Watched run(3);
  RankWatch& first = run.start(0);
  run.start(1);
  run.start(2);
  run.process(1).send(SIGSTOP);
  REQUIRE(soon([&] { return state_of(run.process(1).card(), own_card("127.0.0.1")) == ProcessState::kStopped; }));
  std::this_thread::sleep_for(milliseconds(500));
  CHECK_FALSE(first.known_failure());  // a pause is no failure until a call has waited for it in vain
  const LaunchFailure failure = first.explain(ExitCode::kDevice, "timed out in all_reduce");
  CHECK(failure.rank == 1);
  CHECK(failure.message.find("is stopped") != std::string::npos);
}

TEST_CASE("a rank on another machine that is silent is named", "[comm]") {
  Watched run(3);
  run.move_away(2);
  RankWatch& first = run.start(0);
  run.start(1);
  run.start(2);
  std::this_thread::sleep_for(milliseconds(400));
  run.stop(2);  // no word, no beat
  const LaunchFailure failure = first.explain(ExitCode::kDevice, "timed out in all_reduce");
  CHECK(failure.rank == 2);
  CHECK(failure.message.find("does not answer any more") != std::string::npos);
}

TEST_CASE("a process whose main thread does not come back after a failure is ended", "[comm]") {
  Watched run(2, milliseconds(1000));
  run.start(0);
  RankWatch& second = run.start(1);
  second.explain(ExitCode::kNonFinite, "rank 1 (cpu): the loss is NaN");
  REQUIRE(soon([&] { return !run.left().empty(); }));
  CHECK(run.left().front() == std::pair<int, std::string>(0, "rank 1 (cpu): the loss is NaN"));
}

TEST_CASE("a store that does not answer ends the run a quarter over the time-out", "[comm]") {
  std::promise<void> end;
  const auto store = c10::make_intrusive<HangingStore>(end.get_future().share());
  {
    Watched run(2, milliseconds(1000), store);
    RankWatch& second = run.start(1);
    std::this_thread::sleep_for(milliseconds(300));
    store->hangs = true;
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(soon([&] { return !run.left().empty(); }));
    const auto waited = std::chrono::steady_clock::now() - start;
    CHECK(waited > milliseconds(1000));
    CHECK(second.known_failure()->rank == 0);
    CHECK(second.known_failure()->message.find("does not answer") != std::string::npos);
    end.set_value();
  }
}

TEST_CASE("after a signal, a peer that is stopped ends the run within its patience", "[comm]") {
  Watched run(2, milliseconds(60000));
  run.on_stop([] { return SIGTERM; });
  RankWatch& first = run.start(0);
  run.start(1);
  run.process(1).send(SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  bool known = false;
  for (int i = 0; i < 800 && !known; ++i) {
    std::this_thread::sleep_for(milliseconds(25));
    known = first.known_failure().has_value();
  }
  REQUIRE(known);
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::seconds(9));
  CHECK(first.known_failure()->rank == 1);
}

TEST_CASE("the rank that holds the store stays until the others know", "[comm]") {
  Watched run(2);
  RankWatch &first = run.start(0), &second = run.start(1);
  first.explain(ExitCode::kOutput, "rank 0 (cpu): disk full");
  const auto start = std::chrono::steady_clock::now();
  first.let_others_know();
  CHECK(second.known_failure().has_value());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
}
