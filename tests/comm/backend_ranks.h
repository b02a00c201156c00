// Ranks for tests of what every back end must do: threads of this process, joined by one of the back ends.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <functional>
#include <ostream>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "comm/process_groups.h"
#include "comm/rank_team.h"

namespace mgtrain::test {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Tensors = std::vector<at::Tensor>;

enum class Carrier { kInProcess, kGloo };

inline std::ostream& operator<<(std::ostream& out, Carrier carrier) {
  return out << (carrier == Carrier::kGloo ? "Gloo" : "in process");
}

/// One rank's view: the group of all, and how it joins another one.
struct RankEnd {
  int rank;
  Group all;
  std::function<Group(const std::string& name, const std::vector<int>& ranks)> sub_group;
};

/// Calls `work` on each rank at the same time and rethrows the first error. Assertions belong after it: Catch2's are
/// for one thread. Nobody leaves before all are done: Gloo's work is over for a sender only when it has arrived.
inline void on_ranks_of(Carrier carrier, int size, const std::function<void(const RankEnd&)>& work,
                        std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto world = make_in_process_world(size, timeout);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const std::string here = "127.0.0.1";
  run_ranks(
      *world->comm(),
      [&](int rank) {
        RankEnd end{.rank = rank};
        if (carrier == Carrier::kGloo) {
          end.all = make_process_group(store, rank, size, at::kCPU, timeout, here);
          end.sub_group = [&](const std::string& name, const std::vector<int>& ranks) {
            return make_process_sub_group(store, rank, name, ranks, at::kCPU, timeout, here);
          };
        } else {
          end.all = world->process_group(rank);
          end.sub_group = [&](const auto& name, const auto& ranks) { return world->sub_group(rank, name, ranks); };
        }
        try {
          work(end);
        } catch (const std::exception& error) {
          world->comm()->abort(rank, error.what());  // before the end of Gloo's group makes the others fail
          throw;
        }
        end.all->barrier()->wait();
      },
      std::chrono::seconds(60), [](const auto&, const auto&) { std::abort(); });
}

/// One result a rank.
template <class Work>
Tensors results_of(Carrier carrier, int size, const Work& work) {
  Tensors results(static_cast<size_t>(size));
  on_ranks_of(carrier, size, [&](const RankEnd& end) { results[static_cast<size_t>(end.rank)] = work(end); });
  return results;
}

}  // namespace mgtrain::test
