// Machines that do not exist: inventories with any number of GPUs, for tests of selection and plans.
#pragma once

#include <string>

#include "devices/inventory.h"

namespace mgtrain::test {

/// A UUID as nvidia-smi writes it; the first eight digits repeat `digit`.
inline std::string fake_uuid(int digit, const std::string& kind = "GPU") {
  return kind + "-" + std::string(8, static_cast<char>('a' + digit)) + "-0000-1111-2222-333333333333";
}

/// A healthy machine of `gpus` GPUs of 80 GB, driver 13.0, 16 cores, 64 GiB; with 0 GPUs no NVIDIA hardware at all.
inline Inventory fake_inventory(int gpus) {
  Inventory machine;
  machine.built_with_cuda = true;
  machine.cuda_build_version = "13.0";
  machine.minimum_driver_version = 13000;
  machine.kernel_architectures = {"sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"};
  machine.cpu_name = "Fake CPU";
  machine.cpu_cores = 16;
  machine.host_memory_bytes = uint64_t{64} << 30;
  machine.pci_nvidia_gpus = gpus;
  if (gpus > 0) {
    machine.driver_version = 13000;
    machine.driver_release = "580.65.06";
  }
  for (int index = 0; index < gpus; ++index) {
    Gpu gpu{.index = index,
            .name = "Fake GPU",
            .uuid = fake_uuid(index),
            .pci_bus_id = "0000:" + std::to_string(index + 1) + "b:00.0",
            .compute_major = 9,
            .memory_total = uint64_t{80} << 30,
            .memory_free = uint64_t{79} << 30};
    for (int peer = 0; peer < gpus; ++peer) {
      if (peer != index) gpu.peers.push_back(peer);
    }
    machine.gpus.push_back(gpu);
  }
  return machine;
}

/// The same hardware with nothing visible to CUDA.
inline Inventory without_visible_gpus(Inventory machine) {
  machine.gpus.clear();
  return machine;
}

}  // namespace mgtrain::test
