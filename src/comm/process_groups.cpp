#include "comm/process_groups.h"

#include <numeric>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

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

c10::intrusive_ptr<c10d::ProcessGroup> group_over(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  c10::DeviceType device, Type type,
                                                  const c10::intrusive_ptr<c10d::Backend>& backend) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(device, type, backend);
  group->setDefaultBackend(type);
  group->setGroupName("world");
  return group;
}

}  // namespace

struct InProcessWorld::Shared {
  std::shared_ptr<InProcessGroup> group;
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
};

InProcessWorld::InProcessWorld(int ranks, std::chrono::milliseconds timeout)
    : world_(std::make_shared<CommWorld>(ranks, timeout)), shared_(std::make_unique<Shared>()) {
  shared_->group = std::make_shared<InProcessGroup>(world_, "world", all_ranks(ranks));
}

InProcessWorld::~InProcessWorld() = default;

c10::intrusive_ptr<c10d::ProcessGroup> InProcessWorld::process_group(int rank, c10::DeviceType device) const {
  const int size = world_->size();
  if (device == c10::DeviceType::CUDA) {
    return group_over(shared_->store, rank, size, device, Type::NCCL,
                      make_nccl_backend(shared_->store, rank, size, world_->timeout()));
  }
  return group_over(shared_->store, rank, size, device, Type::CUSTOM,
                    c10::make_intrusive<InProcessBackend>(shared_->group, rank, size));
}

std::unique_ptr<InProcessWorld> make_in_process_world(int ranks, std::chrono::milliseconds timeout) {
  return std::make_unique<InProcessWorld>(ranks, timeout);
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                          int size, c10::DeviceType device,
                                                          std::chrono::milliseconds timeout,
                                                          const std::string& address) {
  if (device == c10::DeviceType::CUDA)
    return group_over(store, rank, size, device, Type::NCCL, make_nccl_backend(store, rank, size, timeout));
  return group_over(store, rank, size, device, Type::GLOO, make_gloo_backend(store, rank, size, timeout, address));
}

}  // namespace mgtrain
