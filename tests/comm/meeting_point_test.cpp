// The waiting core of ranks that are threads. Also built with ThreadSanitizer (mgtrain_thread_tests), which sees what
// the numbers do not.
#include "comm/meeting_point.h"

#include <array>
#include <numeric>
#include <thread>

#include "comm/mailbox.h"
#include "comm/rank_team.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using Catch::Contains;
using Catch::Equals;

constexpr std::chrono::seconds kNever{600};
constexpr std::chrono::milliseconds kAtOnce{1};

std::vector<int> ranks_below(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// What each rank's `work` threw ("" for nothing), without ending the others.
template <class Work>
std::vector<std::string> errors_of(int size, const Work& work) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

CallDescription all_reduce() {
  return {
      .operation = "all_reduce(sum)", .dtype = "Float", .shape = "[4]", .layout = "contiguous", .device_type = "cpu"};
}

/// The error of every rank when rank 1's call is changed, which must be the same for all.
std::string error_on_all(const std::function<void(CallDescription&)>& change) {
  const auto world = std::make_shared<CommWorld>(3, kNever);
  MeetingPoint point(world, "data", {0, 1, 2});
  const auto errors = errors_of(3, [&](int rank) {
    CallDescription call = all_reduce();
    if (rank == 1) change(call);
    point.meet(rank, call, nullptr).leave();
  });
  CHECK(errors[1] == errors[0]);
  CHECK(errors[2] == errors[0]);
  return errors[0];
}

TEST_CASE("each rank sees what all have brought, and has its own data back once it left", "[comm]") {
  for (int size = 1; size <= 4; ++size) {
    const auto world = std::make_shared<CommWorld>(size, kNever);
    MeetingPoint point(world, "data", ranks_below(size));
    std::vector<int64_t> sums(static_cast<size_t>(size), 0);
    const auto errors = errors_of(size, [&](int rank) {
      const auto own = std::make_shared<std::array<int64_t, 4>>();
      for (int64_t call = 0; call < 200; ++call) {
        own->fill(call * (rank + 1));  // would be a race, were somebody still reading
        auto meeting = point.meet(rank, all_reduce(), own);
        if (meeting.number() != static_cast<uint64_t>(call)) throw std::logic_error("not the call's number");
        for (int peer = 0; peer < size; ++peer)
          sums[static_cast<size_t>(rank)] += meeting.brought_by<std::array<int64_t, 4>>(peer)[3];
        meeting.leave();
      }
    });
    CHECK(errors == std::vector<std::string>(static_cast<size_t>(size)));
    CHECK(sums == std::vector<int64_t>(static_cast<size_t>(size), 199 * 200 / 2 * size * (size + 1) / 2));
  }
}

TEST_CASE("calls that do not fit are refused on all ranks with what differs", "[comm]") {
  const std::string all = "all_reduce(sum) on group data (ranks 0, 1, 2), call 0: the ranks differ in the ";
  const std::string advice = "; every rank of a group must make the same calls in the same order";
  CHECK(error_on_all([](auto& call) { call.operation = "barrier"; }) ==
        all + "operation: rank 0 has all_reduce(sum), rank 1 has barrier, rank 2 has all_reduce(sum)" + advice);
  CHECK(error_on_all([](auto& call) { call.dtype = "Long"; }) ==
        all + "dtype: rank 0 has Float, rank 1 has Long, rank 2 has Float" + advice);
  CHECK(error_on_all([](auto& call) { call.shape = "[2, 2]"; }) ==
        all + "shape: rank 0 has [4], rank 1 has [2, 2], rank 2 has [4]" + advice);
  CHECK_THAT(error_on_all([](auto& call) { call.layout = "strided"; }), Contains("layout: rank 0 has contiguous"));
  CHECK_THAT(error_on_all([](auto& call) { call.device_type = "cuda"; }), Contains("device type: rank 0 has cpu"));
  CHECK_THAT(error_on_all([](auto& call) { call.root = "rank 2"; }), Contains("root: "));
}

TEST_CASE("one rank that cannot take part is named to all", "[comm]") {
  CHECK(error_on_all([](auto& call) { call.refusal = "a tensor that is not contiguous"; }) ==
        "all_reduce(sum) on group data (ranks 0, 1, 2), call 0: rank 1 cannot take part: a tensor that is not "
        "contiguous");
}

TEST_CASE("two ranks on one device are refused", "[comm]") {
  const auto world = std::make_shared<CommWorld>(3, kNever);
  MeetingPoint point(world, "data", {0, 1, 2});
  const auto errors = errors_of(3, [&](int rank) {
    CallDescription call = all_reduce();
    call.device = rank == 1 ? "cuda:1" : "cuda:0";
    point.meet(rank, call, nullptr).leave();
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Contains("ranks 0, 2 are both on cuda:0; each rank needs a device of its own"));
}

TEST_CASE("after calls that did not fit, the next ones work", "[comm]") {
  const auto world = std::make_shared<CommWorld>(2, kNever);
  MeetingPoint point(world, "data", {0, 1});
  const auto errors = errors_of(2, [&](int rank) {
    CallDescription call = all_reduce();
    if (rank == 1) call.dtype = "Double";
    try {
      point.meet(rank, call, nullptr).leave();
    } catch (const CallMismatch&) {
      point.meet(rank, all_reduce(), nullptr).leave();
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a rank that takes part twice is told so", "[comm]") {
  const auto world = std::make_shared<CommWorld>(2, kNever);
  MeetingPoint point(world, "data", {0, 1});
  // Two threads come as rank 0 before rank 1 does: one of them is refused, whichever is second.
  std::atomic<int> refused = 0;
  const auto errors = errors_of(2, [&](int) {
    try {
      point.meet(0, all_reduce(), nullptr).leave();
    } catch (const CallMismatch& error) {
      ++refused;
      point.meet(1, all_reduce(), nullptr).leave();
      throw;
    }
  });
  CHECK(refused == 1);
  CHECK_THAT(errors[0] + errors[1], Equals("all_reduce(sum) on group data (ranks 0, 1), call 0: rank 0 takes part "
                                           "twice; each rank may make one call at a time"));
}

TEST_CASE("a time-out names the call, its group and who is missing, and ends the world", "[comm]") {
  const auto world = std::make_shared<CommWorld>(6, kAtOnce);
  MeetingPoint point(world, "data", {1, 3, 5});
  CHECK_THROWS_MATCHES(point.meet(1, all_reduce(), nullptr), MeetingTimeout,
                       Catch::Message("time-out after 0.001 s in all_reduce(sum) on group data (ranks 1, 3, 5), call "
                                      "0: missing ranks 1, 5 (seen by rank 3)"));
  REQUIRE(world->failure());
  CHECK(world->failure()->rank == 3);
  CHECK_THROWS_MATCHES(
      point.meet(0, all_reduce(), nullptr), PeerFailed,
      Catch::Message("rank 1 left all_reduce(sum) on group data (ranks 1, 3, 5), call 0 because rank 3 "
                     "failed: " +
                     world->failure()->reason));
}

TEST_CASE("a call's own time-out goes before the world's", "[comm]") {
  const auto world = std::make_shared<CommWorld>(2, kNever);
  MeetingPoint point(world, "data", {0, 1});
  CHECK_THROWS_AS(point.meet(0, all_reduce(), nullptr, kAtOnce), MeetingTimeout);
}

TEST_CASE("a rank that does not finish its share is named after the time-out", "[comm]") {
  const auto world = std::make_shared<CommWorld>(2, kNever);
  MeetingPoint point(world, "data", {0, 1});
  std::optional<MeetingPoint::Meeting> unfinished;
  const auto errors = errors_of(2, [&](int rank) {
    auto meeting = point.meet(rank, all_reduce(), nullptr, std::chrono::seconds(1));
    if (rank == 1) {
      unfinished.emplace(std::move(meeting));
    } else {
      meeting.leave();
    }
  });
  CHECK(errors[0] ==
        "time-out after 1 s in all_reduce(sum) on group data (ranks 0, 1), call 0: still at work: rank 1 (seen by "
        "rank 0)");
}

TEST_CASE("an abort frees who waits in any group, at a call or for a message", "[comm]") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto world = std::make_shared<CommWorld>(6, kNever);
    MeetingPoint first(world, "tensor/0", {0, 1}), second(world, "tensor/1", {2, 3}),
        all(world, "data", ranks_below(6));
    Mailbox mailbox(world, "pipe", {0, 4});
    const auto errors = errors_of(6, [&](int rank) {
      if (rank == 0) first.meet(0, all_reduce(), nullptr);
      if (rank == 1) world->abort(1, "no memory");  // instead of coming
      if (rank == 2) second.meet(0, all_reduce(), nullptr);
      if (rank == 3) all.meet(3, all_reduce(), nullptr);
      if (rank == 4) mailbox.take(mailbox.expect({0, 1, 0}));
      if (rank == 5) all.meet(5, all_reduce(), nullptr);
    });
    CHECK(errors[1].empty());
    for (const size_t rank : {0, 2, 3, 4, 5}) CHECK_THAT(errors[rank], Contains("because rank 1 failed: no memory"));
    REQUIRE(world->failure());
    CHECK(world->failure()->rank == 1);
  }
}

TEST_CASE("the first failure stays the cause", "[comm]") {
  CommWorld world(3, kNever);
  CHECK_FALSE(world.aborted());
  world.abort(2, "first");
  world.abort(0, "second");
  CHECK(world.aborted());
  CHECK(world.failure()->rank == 2);
  CHECK(world.failure()->reason == "first");
}

TEST_CASE("a rank that fails in its share of the work ends the others with its own error as the cause", "[comm]") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto world = std::make_shared<CommWorld>(3, kNever);
    MeetingPoint point(world, "data", {0, 1, 2});
    std::vector<std::string> left(3);
    const auto work = [&](int rank) {
      try {
        auto meeting = point.meet(rank, all_reduce(), nullptr);
        if (rank == 1) throw OutOfMemoryError("no memory on cpu:1");
        meeting.leave();
      } catch (const PeerFailed& error) {
        left[static_cast<size_t>(rank)] = error.what();
        throw;
      }
    };
    CHECK_THROWS_AS(run_ranks(*world, work, kNever, [](const auto&, const auto&) {}), OutOfMemoryError);
    CHECK_THAT(left[0], Contains("rank 0 left all_reduce(sum)") && Contains("rank 1 failed: no memory on cpu:1"));
    CHECK_THAT(left[2], Contains("rank 2 left all_reduce(sum)") && Contains("rank 1 failed: no memory on cpu:1"));
  }
}

TEST_CASE("an abort does not part ranks that are at work on each other's data", "[comm]") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto world = std::make_shared<CommWorld>(3, kNever);
    MeetingPoint point(world, "data", {0, 1});
    std::array<int64_t, 2> sums{};
    const auto errors = errors_of(3, [&](int rank) {
      if (rank == 2) return world->abort(2, "elsewhere");
      const auto own = std::make_shared<std::vector<int64_t>>(1000, rank + 1);
      auto meeting = point.meet(rank, all_reduce(), own);
      const auto& other = meeting.brought_by<std::vector<int64_t>>(1 - rank);
      sums[static_cast<size_t>(rank)] = std::accumulate(other.begin(), other.end(), int64_t{0});
      meeting.leave();
      own->assign(1000, 0);
    });
    // Either both were at work before the abort and finished, or neither met.
    CHECK(errors[0].empty() == errors[1].empty());
    if (errors[0].empty()) CHECK(sums == std::array<int64_t, 2>{2000, 1000});
  }
}

TEST_CASE("a world needs a rank and a time-out", "[comm]") {
  CHECK_THROWS_WITH(CommWorld(0, kNever), "a world of 0 ranks; it needs at least one");
  CHECK_THROWS_WITH(CommWorld(1, std::chrono::milliseconds(0)), "a time-out of 0 s; it must be positive");
}

}  // namespace
}  // namespace mgtrain
