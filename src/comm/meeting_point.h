// Where the ranks of one group, threads of one process, meet at every collective operation. Each brings what it is
// about to do and a pointer to its data, and waits for the others; when all are there, each sees what all have brought,
// does its share of the work, and leaves when all are done with it. Calls are numbered; what does not fit is refused on
// all ranks alike. One thread a rank. Torch-free.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm_world.h"

namespace mgtrain {

/// What a rank is about to do. All but `device` and `refusal` must be the same on all ranks of the group.
struct CallDescription {
  std::string operation;    // "all_reduce(sum)"
  std::string dtype;        // of the tensors, "float"
  std::string shape;        // "[64, 3]"
  std::string layout;       // "contiguous"
  std::string device_type;  // "cpu"
  std::string root;         // "rank 0"; empty where there is none
  std::string device;       // "cuda:0": no two ranks may bring the same; empty: not asked, as on the CPU
  std::string refusal;      // why this rank cannot take part; then none can, and all are told
};

class MeetingPoint {
  struct State;

 public:
  /// Of the group `name` with these ranks of the world, in group order.
  MeetingPoint(std::shared_ptr<CommWorld> world, std::string name, std::vector<int> ranks);

  /// One rank's part in a meeting, from when all have come until it leaves.
  class Meeting {
   public:
    Meeting(Meeting&&) = default;
    Meeting& operator=(Meeting&&) = delete;
    /// Without leave(): this rank failed in its share of the work, and the others' leave() throws.
    ~Meeting();

    [[nodiscard]] uint64_t number() const;
    /// What a rank (by its number in the group) has brought. Valid, and not touched by it, until this rank leaves.
    template <class T>
    [[nodiscard]] T& brought_by(int group_rank) const {
      return *static_cast<T*>(payload(group_rank));
    }
    /// This rank has done its share; waits until all have. Nobody touches this rank's data after it. An abort does not
    /// end this wait: what peers are doing then is copying, not waiting. Throws MeetingTimeout, and PeerFailed where
    /// one failed in its share, once it has aborted the world: what the data are then is unknown.
    void leave();

   private:
    friend class MeetingPoint;
    Meeting(MeetingPoint& point, std::shared_ptr<State> state, int group_rank, CommWorld::Clock::time_point deadline);
    [[nodiscard]] void* payload(int group_rank) const;

    MeetingPoint* point_;
    std::shared_ptr<State> state_;  // empty: left, or moved from
    int group_rank_;
    CommWorld::Clock::time_point deadline_;
  };

  /// Brings `call` and `payload`, which the meeting shares until all have left it, and waits for all ranks of the
  /// group. Throws CallMismatch where the calls do not fit (on all ranks, with the same words), PeerFailed after an
  /// abort, and MeetingTimeout, which aborts the world. `timeout` 0: the world's.
  Meeting meet(int group_rank, CallDescription call, std::shared_ptr<void> payload,
               std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] CommWorld& world() const { return *world_; }

 private:
  [[nodiscard]] std::string call_text(const State& state, const std::string& operation) const;
  [[nodiscard]] std::string mismatch_text(const State& state) const;
  [[nodiscard]] std::vector<int> ranks_without(const std::vector<bool>& there) const;
  [[noreturn]] void time_out_locked(int group_rank, const State& state, const std::vector<bool>& there,
                                    const char* what);

  const std::shared_ptr<CommWorld> world_;
  const std::string name_;
  const std::vector<int> ranks_;
  CommWorld::WaitPlace place_;
  std::shared_ptr<State> open_;  // the meeting that waits for its last ranks
  uint64_t number_ = 0;
};

}  // namespace mgtrain
