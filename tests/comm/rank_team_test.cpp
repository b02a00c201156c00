#include "comm/rank_team.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "comm/meeting_point.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

constexpr std::chrono::seconds kNever{600};

void run(CommWorld& world, const std::function<void(int)>& work) {
  run_ranks(world, work, kNever, [](const auto&, const auto&) { std::abort(); });
}

TEST_CASE("each rank runs once, in a thread of its own", "[comm]") {
  CommWorld world(4, kNever);
  std::vector<std::thread::id> threads(4);
  run(world, [&](int rank) { threads[static_cast<size_t>(rank)] = std::this_thread::get_id(); });
  threads.push_back(std::this_thread::get_id());
  std::sort(threads.begin(), threads.end());
  CHECK(std::adjacent_find(threads.begin(), threads.end()) == threads.end());
  CHECK_FALSE(world.aborted());
}

TEST_CASE("the error that ended the team is its first, with its type, never one of those that stopped for it",
          "[comm]") {
  for (int repeat = 0; repeat < 100; ++repeat) {
    const int failing = repeat % 4;
    const auto world = std::make_shared<CommWorld>(4, kNever);
    MeetingPoint point(world, "world", {0, 1, 2, 3});
    std::atomic<int> stopped = 0;
    const auto work = [&](int rank) {
      for (int call = 0;; ++call) {
        if (rank == failing && call == repeat / 4) throw OutOfMemoryError("rank " + std::to_string(rank) + " is full");
        try {
          point.meet(rank, {.operation = "barrier"}, nullptr).leave();
        } catch (const PeerFailed& error) {
          if (error.failure.rank == failing) ++stopped;
          throw;
        }
      }
    };
    CHECK_THROWS_MATCHES(run(*world, work), OutOfMemoryError,
                         Catch::Message("rank " + std::to_string(failing) + " is full"));
    CHECK(stopped == 3);
    CHECK(world->failure()->rank == failing);
  }
}

TEST_CASE("a rank that ends without a word lets the others run into the time-out, which names it", "[comm]") {
  const auto world = std::make_shared<CommWorld>(3, std::chrono::milliseconds(1));
  MeetingPoint point(world, "world", {0, 1, 2});
  const auto work = [&](int rank) {
    if (rank != 1) point.meet(rank, {.operation = "barrier"}, nullptr, rank == 0 ? kNever : world->timeout()).leave();
  };
  CHECK_THROWS_WITH(run(*world, work),
                    Catch::Contains("in barrier on group world (ranks 0, 1, 2), call 0: missing rank") &&
                        Catch::Contains("(seen by rank 2)"));
}

}  // namespace
}  // namespace mgtrain
