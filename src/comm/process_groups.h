// Groups of ranks as c10d's process groups, whoever carries their messages.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "comm/comm_world.h"

namespace mgtrain {

/// The ranks of one process, a thread each. Made before their threads start: it turns off c10d's flight recorder, which
/// is not made for threads (TORCH_FR_BUFFER_SIZE; one that the user has set stands).
class InProcessWorld {
 public:
  InProcessWorld(int ranks, std::chrono::milliseconds timeout);
  ~InProcessWorld();

  /// What ends them all.
  [[nodiscard]] const std::shared_ptr<CommWorld>& comm() const { return world_; }
  /// Rank `rank`'s end of the group of all, for tensors on devices of this type: NCCL for GPUs, else
  /// in_process_backend. Called by each rank's thread, once.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group(
      int rank, c10::DeviceType device = c10::DeviceType::CPU) const;

  /// Rank `rank`'s end of the group `name` of some ranks of the world, in the order given; an abort ends it with all
  /// others. Each of these ranks calls it, once and with the same ranks; throws CallMismatch for others.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> sub_group(int rank, const std::string& name,
                                                                 const std::vector<int>& ranks,
                                                                 c10::DeviceType device = c10::DeviceType::CPU) const;

 private:
  struct Shared;
  std::shared_ptr<CommWorld> world_;
  std::unique_ptr<Shared> shared_;
};

std::unique_ptr<InProcessWorld> make_in_process_world(int ranks, std::chrono::milliseconds timeout);

/// The group of all ranks that met at `store`, a process each, for tensors on devices of this type: NCCL for GPUs, Gloo
/// for CPUs over `address` (backends.h). All call it at the same time.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                          int size, c10::DeviceType device,
                                                          std::chrono::milliseconds timeout,
                                                          const std::string& address);

/// The same for the group `name` of some of those ranks, in the order given; all these ranks call it at the same time,
/// with the same ranks.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_sub_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                              const std::string& name, const std::vector<int>& ranks,
                                                              c10::DeviceType device, std::chrono::milliseconds timeout,
                                                              const std::string& address);

}  // namespace mgtrain
