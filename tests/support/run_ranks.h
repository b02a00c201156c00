// Ranks of this process for tests: a thread each, in one world, joined whatever happens.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "comm/process_groups.h"
#include "comm/rank_team.h"

namespace mgtrain::test {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Calls `work(rank, group)` on each rank at the same time; rethrows the first error. Assertions belong after it:
/// Catch2's are for one thread.
inline void on_ranks(int ranks, const std::function<void(int rank, const Group& group)>& work,
                     c10::DeviceType device = c10::DeviceType::CPU) {
  const auto world = make_in_process_world(ranks, std::chrono::seconds(60));
  run_ranks(
      *world->comm(), [&](int rank) { work(rank, world->process_group(rank, device)); }, std::chrono::seconds(60),
      [](const auto&, const auto&) { std::abort(); });
}

}  // namespace mgtrain::test
