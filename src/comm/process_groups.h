// Groups of ranks as c10d's process groups, whoever carries their messages.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "comm/comm_world.h"

namespace mgtrain {

/// The ranks of one process, a thread each.
class InProcessWorld {
 public:
  InProcessWorld(int ranks, std::chrono::milliseconds timeout);
  ~InProcessWorld();

  /// What ends them all.
  [[nodiscard]] const std::shared_ptr<CommWorld>& comm() const { return world_; }
  /// Rank `rank`'s end of the group of all. Any thread, once a rank.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group(int rank) const;

 private:
  struct Shared;
  std::shared_ptr<CommWorld> world_;
  std::unique_ptr<Shared> shared_;
};

std::unique_ptr<InProcessWorld> make_in_process_world(int ranks, std::chrono::milliseconds timeout);

}  // namespace mgtrain
