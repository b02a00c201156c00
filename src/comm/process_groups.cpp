#include "comm/process_groups.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "comm/backends.h"
#include "comm/in_process_backend.h"

namespace mgtrain {
namespace {

using Type = c10d::ProcessGroup::BackendType;

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// c10d's own barrier() keeps a tensor in a static variable, which ranks that are threads would write at once.
class RankGroup final : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    return getDefaultBackend()->barrier(options);
  }
};

/// c10d's flight recorder, one a process for all Gloo or NCCL groups, notes a new group in a map without a lock (2.11:
/// FlightRecorderDetail.hpp, all_pg_status_): ranks that are threads crash in it. It reads this once, at its first use.
void turn_off_flight_recorder() {
  static const int done = ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
  (void)done;
}

/// The place of `rank` in a group of the world's ranks.
int place_in(const std::string& name, const std::vector<int>& ranks, int rank, int world_size) {
  const std::string group = "group " + name + " (" + ranks_text(ranks) + ")";
  const std::set<int> distinct(ranks.begin(), ranks.end());
  if (ranks.empty() || distinct.size() != ranks.size() || *distinct.begin() < 0 || *distinct.rbegin() >= world_size) {
    throw CallMismatch(group + " is not made of different ranks of a world of " + std::to_string(world_size));
  }
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  if (place == ranks.end()) throw CallMismatch(group + " is joined by rank " + std::to_string(rank));
  return static_cast<int>(place - ranks.begin());
}

c10::intrusive_ptr<c10d::ProcessGroup> group_over(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  c10::DeviceType device, Type type,
                                                  const c10::intrusive_ptr<c10d::Backend>& backend,
                                                  const std::string& name) {
  auto group = c10::make_intrusive<RankGroup>(store, rank, size);
  group->setBackend(device, type, backend);
  group->setDefaultBackend(type);
  group->setGroupName(name);
  return group;
}

c10::intrusive_ptr<c10d::ProcessGroup> over_store(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  c10::DeviceType device, std::chrono::milliseconds timeout,
                                                  const std::string& address, const std::string& name) {
  if (device == c10::DeviceType::CUDA) {
    return group_over(store, rank, size, device, Type::NCCL, make_nccl_backend(store, rank, size, timeout), name);
  }
  return group_over(store, rank, size, device, Type::GLOO, make_gloo_backend(store, rank, size, timeout, address),
                    name);
}

c10::intrusive_ptr<c10d::Store> store_of(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>("group/" + name, store);
}

}  // namespace

struct InProcessWorld::Shared {
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::shared_ptr<InProcessGroup> all;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<InProcessGroup>> groups;  // guarded by the mutex
};

InProcessWorld::InProcessWorld(int ranks, std::chrono::milliseconds timeout)
    : world_(std::make_shared<CommWorld>(ranks, timeout)), shared_(std::make_unique<Shared>()) {
  if (ranks > 1) turn_off_flight_recorder();
  shared_->all = std::make_shared<InProcessGroup>(world_, "world", all_ranks(ranks));
}

InProcessWorld::~InProcessWorld() = default;

c10::intrusive_ptr<c10d::ProcessGroup> InProcessWorld::process_group(int rank, c10::DeviceType device) const {
  const int size = world_->size();
  if (device == c10::DeviceType::CUDA)
    return over_store(shared_->store, rank, size, device, world_->timeout(), "", "world");
  return group_over(shared_->store, rank, size, device, Type::CUSTOM,
                    c10::make_intrusive<InProcessBackend>(shared_->all, rank, size), "world");
}

c10::intrusive_ptr<c10d::ProcessGroup> InProcessWorld::sub_group(int rank, const std::string& name,
                                                                 const std::vector<int>& ranks,
                                                                 c10::DeviceType device) const {
  const int place = place_in(name, ranks, rank, world_->size());
  const auto size = static_cast<int>(ranks.size());
  const auto store = store_of(shared_->store, name);
  if (device == c10::DeviceType::CUDA) return over_store(store, place, size, device, world_->timeout(), "", name);
  std::shared_ptr<InProcessGroup> group;
  {
    const std::lock_guard lock(shared_->mutex);
    auto& known = shared_->groups[name];
    if (!known) known = std::make_shared<InProcessGroup>(world_, name, ranks);
    group = known;
  }
  if (group->meeting.ranks() != ranks) {
    throw CallMismatch("group " + name + " is of " + ranks_text(group->meeting.ranks()) + " to others, and of " +
                       ranks_text(ranks) + " to rank " + std::to_string(rank));
  }
  return group_over(store, place, size, device, Type::CUSTOM, c10::make_intrusive<InProcessBackend>(group, place, size),
                    name);
}

std::unique_ptr<InProcessWorld> make_in_process_world(int ranks, std::chrono::milliseconds timeout) {
  return std::make_unique<InProcessWorld>(ranks, timeout);
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                          int size, c10::DeviceType device,
                                                          std::chrono::milliseconds timeout,
                                                          const std::string& address) {
  return over_store(store, rank, size, device, timeout, address, "world");
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_sub_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                              const std::string& name, const std::vector<int>& ranks,
                                                              c10::DeviceType device, std::chrono::milliseconds timeout,
                                                              const std::string& address) {
  const int place = place_in(name, ranks, rank, std::numeric_limits<int>::max());
  return over_store(store_of(store, name), place, static_cast<int>(ranks.size()), device, timeout, address, name);
}

}  // namespace mgtrain
