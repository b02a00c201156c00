#include "comm/mailbox.h"

#include <thread>

#include "support/catch.h"

namespace mgtrain {
namespace {

constexpr std::chrono::seconds kNever{600};

std::shared_ptr<CommWorld> world_of(int size) { return std::make_shared<CommWorld>(size, kNever); }
std::shared_ptr<int> message(int value) { return std::make_shared<int>(value); }
int value_of(const std::shared_ptr<void>& message) { return *static_cast<const int*>(message.get()); }

TEST_CASE("sending needs no receiver, and messages of a lane keep their order", "[comm]") {
  Mailbox mailbox(world_of(2), "pipe", {0, 1});
  for (int i = 0; i < 3; ++i) mailbox.send({0, 1, 0}, message(i));
  for (int i = 0; i < 3; ++i) CHECK(value_of(mailbox.take(mailbox.expect({0, 1, 0}))) == i);
}

TEST_CASE("tags, directions and senders are lanes of their own", "[comm]") {
  Mailbox mailbox(world_of(3), "pipe", {0, 1, 2});
  mailbox.send({0, 1, 7}, message(1));
  mailbox.send({0, 1, 8}, message(2));
  mailbox.send({1, 0, 7}, message(3));
  mailbox.send({2, 1, 7}, message(4));
  CHECK(value_of(mailbox.take(mailbox.expect({2, 1, 7}))) == 4);
  CHECK(value_of(mailbox.take(mailbox.expect({0, 1, 8}))) == 2);
  CHECK(value_of(mailbox.take(mailbox.expect({0, 1, 7}))) == 1);
  CHECK(value_of(mailbox.take(mailbox.expect({1, 0, 7}))) == 3);
}

TEST_CASE("messages go to receivers in the order these began, whoever collects first", "[comm]") {
  Mailbox mailbox(world_of(2), "pipe", {0, 1});
  const auto first = mailbox.expect({0, 1, 0}), second = mailbox.expect({0, 1, 0});
  CHECK_FALSE(mailbox.has_come(first));
  mailbox.send({0, 1, 0}, message(1));
  CHECK(mailbox.has_come(first));
  CHECK_FALSE(mailbox.has_come(second));
  mailbox.send({0, 1, 0}, message(2));
  CHECK(value_of(mailbox.take(second)) == 2);
  CHECK(value_of(mailbox.take(first)) == 1);
}

TEST_CASE("two ranks that both send before they receive go on", "[comm]") {
  Mailbox mailbox(world_of(2), "pipe", {0, 1});
  int64_t sums[2] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 500; ++i) {
        mailbox.send({rank, 1 - rank, 0}, message(i));
        sums[rank] += value_of(mailbox.take(mailbox.expect({1 - rank, rank, 0})));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sums[0] == 499 * 500 / 2);
  CHECK(sums[1] == 499 * 500 / 2);
}

TEST_CASE("a message that does not come is a time-out with both ranks named, and ends the world", "[comm]") {
  const auto world = world_of(4);
  Mailbox mailbox(world, "pipe", {1, 3});
  const auto receipt = mailbox.expect({0, 1, 5});
  CHECK_THROWS_MATCHES(
      mailbox.take(receipt, std::chrono::milliseconds(1)), MeetingTimeout,
      Catch::Message("time-out after 0.001 s in recv from rank 1 to rank 3 (tag 5) on group pipe: nothing came from "
                     "rank 1"));
  CHECK(world->failure()->rank == 3);
  CHECK_THROWS_AS(mailbox.send({0, 1, 5}, message(1)), PeerFailed);
  CHECK_THROWS_AS(mailbox.expect({0, 1, 5}), PeerFailed);
}

}  // namespace
}  // namespace mgtrain
