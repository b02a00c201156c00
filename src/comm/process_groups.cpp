#include "comm/process_groups.h"

#include <numeric>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/in_process_backend.h"

namespace mgtrain {
namespace {

std::vector<int> all_ranks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

struct InProcessWorld::Shared {
  std::shared_ptr<InProcessGroup> group;
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();  // a process group asks for one
};

InProcessWorld::InProcessWorld(int ranks, std::chrono::milliseconds timeout)
    : world_(std::make_shared<CommWorld>(ranks, timeout)), shared_(std::make_unique<Shared>()) {
  shared_->group = std::make_shared<InProcessGroup>(world_, "world", all_ranks(ranks));
}

InProcessWorld::~InProcessWorld() = default;

c10::intrusive_ptr<c10d::ProcessGroup> InProcessWorld::process_group(int rank) const {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(shared_->store, rank, world_->size());
  const auto backend = c10::make_intrusive<InProcessBackend>(shared_->group, rank, world_->size());
  using Type = c10d::ProcessGroup::BackendType;
  for (const c10::DeviceType device : {c10::DeviceType::CPU, c10::DeviceType::PrivateUse1})
    group->setBackend(device, Type::CUSTOM, backend);
  group->setDefaultBackend(Type::CUSTOM);
  group->setGroupName("world");
  return group;
}

std::unique_ptr<InProcessWorld> make_in_process_world(int ranks, std::chrono::milliseconds timeout) {
  return std::make_unique<InProcessWorld>(ranks, timeout);
}

}  // namespace mgtrain
