// Messages from one rank of a group to another, threads of one process. Sending never waits; a receiver books its place
// when it begins to receive and may collect later. Order is kept for each (from, to, tag). Any thread. Torch-free.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/comm_world.h"

namespace mgtrain {

class Mailbox {
 public:
  /// A sender, a receiver (by their numbers in the group) and a tag: what the order of messages is kept for.
  struct Lane {
    int from, to, tag;
    friend bool operator<(const Lane& a, const Lane& b) {
      return std::tie(a.from, a.to, a.tag) < std::tie(b.from, b.to, b.tag);
    }
  };
  /// The place of one message in its lane.
  struct Receipt {
    Lane lane;
    uint64_t number;
  };

  Mailbox(std::shared_ptr<CommWorld> world, std::string name, std::vector<int> ranks);

  /// Leaves a message and returns at once. Throws PeerFailed after an abort.
  void send(const Lane& lane, std::shared_ptr<void> message);
  /// Books the lane's next message, sent already or not.
  Receipt expect(const Lane& lane);
  [[nodiscard]] bool has_come(const Receipt& receipt) const;
  /// Waits for the booked message and takes it, once. Throws PeerFailed after an abort, and MeetingTimeout, which
  /// aborts the world. `timeout` 0: the world's.
  std::shared_ptr<void> take(const Receipt& receipt, std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

 private:
  struct Queue {
    uint64_t next_sent = 0, next_expected = 0;
    std::map<uint64_t, std::shared_ptr<void>> messages;
  };
  [[nodiscard]] std::string lane_text(const char* what, const Lane& lane) const;
  [[nodiscard]] int world_rank(int group_rank) const { return ranks_.at(static_cast<size_t>(group_rank)); }

  const std::shared_ptr<CommWorld> world_;
  const std::string name_;
  const std::vector<int> ranks_;
  CommWorld::WaitPlace place_;
  std::map<Lane, Queue> queues_;
};

}  // namespace mgtrain
