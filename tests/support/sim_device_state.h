// What the parts of the simulated back end share. For sim_device.cpp, sim_memory.cpp and sim_operators.cpp only.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <mutex>
#include <utility>

#include "support/sim_device.h"

namespace mgtrain::sim {

inline constexpr c10::DeviceType kSim = c10::DeviceType::PrivateUse1;

struct DeviceRecord {
  Memory memory;
  int64_t cap = 0;
  Waits waits;
  int64_t operations = 0;
  std::vector<Operation> recorded;
  int64_t fail_at = 0, delay_at = 0;  // numbers of operations; 0: none
  std::chrono::microseconds delay{0};
};

struct State {
  std::mutex mutex;
  int devices = 0;
  bool recording = false;
  std::array<DeviceRecord, kMostDevices> of;
  std::map<std::string, Copies> copies;

  DeviceRecord& operator[](c10::DeviceIndex device) { return of.at(static_cast<size_t>(device)); }
};
State& state();

/// The calling thread's current device.
c10::DeviceIndex& current_device();
/// `device` with an index: the current one's if it has none. Throws for a device that is not there.
c10::Device resolved(c10::Device device);

/// Counts an operation; sleeps or throws if that was asked for.
void begin_operation(c10::DeviceIndex device, const std::string& name);
void count_copy(c10::Device from, c10::Device to, int64_t bytes);

// Memory (sim_memory.cpp). A simulated storage owns a CPU storage: an operation wraps it and adopts its result without
// a copy, so that kernels which write where their schema does not say so (batch_norm's statistics) are right as well.
c10::Allocator& allocator();
/// The CPU storage behind a simulated one.
const c10::intrusive_ptr<c10::StorageImpl>& host_storage(const c10::Storage& storage);
/// A simulated storage around a CPU storage, charged to the device.
c10::Storage adopt(c10::intrusive_ptr<c10::StorageImpl> host, c10::DeviceIndex device);
/// Takes over what a kernel did to the size and place of the CPU storage.
void follow_host(const c10::Storage& storage);
/// A CPU tensor over the memory of a simulated one, and the other way round.
at::Tensor on_host(const at::Tensor& simulated);
at::Tensor on_device(const at::Tensor& host, const c10::Storage& storage);

void register_operators();  // sim_operators.cpp

}  // namespace mgtrain::sim
