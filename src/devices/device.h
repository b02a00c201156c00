// A device a run computes on, as a value: what the user meets in plans and messages. No LibTorch here;
// devices/torch_device.h makes an at::Device of it.
#pragma once

#include <cstdint>
#include <string>

namespace mgtrain {

/// kSimulated: accelerators that a test program brings with it; mgtrain itself has none.
enum class DeviceKind { kCpu, kCuda, kSimulated };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = -1;          // CUDA: visible index; simulated: from 0; CPU: number of the replica, or -1 for the one
  std::string name;        // "NVIDIA H200", or the CPU model
  std::string uuid;        // CUDA only
  std::string pci_bus_id;  // CUDA only, "0000:3b:00.0"
  uint64_t memory_bytes = 0;
  int threads = 1;  // CPU: intra-op threads that are this device's share

  /// "cuda:1", "cpu", "cpu replica 2", "sim:1": as messages name it.
  [[nodiscard]] std::string label() const;
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace mgtrain
