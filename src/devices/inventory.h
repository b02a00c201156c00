// What this machine has, as a value that tests can fake. probe_inventory() is defined by inventory_cuda.cpp or
// inventory_none.cpp, whichever the build has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mgtrain {

struct Gpu {
  int index = 0;  // among the visible ones, in CUDA's order
  std::string name;
  std::string uuid;  // "GPU-8a1f..." or "MIG-..."
  std::string pci_bus_id;
  int compute_major = 0, compute_minor = 0;
  uint64_t memory_total = 0, memory_free = 0;  // bytes
  std::vector<int> peers;                      // visible indices this GPU can access directly
  bool is_mig = false;
  std::string unusable;  // empty: usable; else why not ("no kernels for sm_70 in this LibTorch")
};

struct Inventory {
  bool built_with_cuda = false;
  std::string cuda_build_version;                   // "13.0" the build's LibTorch was made for
  std::vector<Gpu> gpus;                            // visible, in CUDA's order
  std::optional<int> driver_version;                // as cuDriverGetVersion: 13000; none: no driver library
  int minimum_driver_version = 0;                   // needed by the build, same form
  std::string initialization_error;                 // CUDA's text if it could not start
  int pci_nvidia_gpus = 0;                          // NVIDIA display or 3D controllers on the PCI bus, usable or not
  std::optional<std::string> cuda_visible_devices;  // the variable, if set (an empty text hides all)
  bool mig_mode_seen = false;                       // some physical GPU is in MIG mode
  std::string driver_release;                       // "580.65.06" as nvidia-smi prints it; empty: not known
  std::vector<std::string> kernel_architectures;    // "sm_80", "compute_90": what the build's LibTorch has kernels for

  std::string cpu_name;
  int cpu_cores = 1;  // cores this process may use (affinity and cgroup quota)
  uint64_t host_memory_bytes = 0;

  int simulated_devices = 0;  // what a test program brings with it
};

/// Looks at this machine. Never throws for an absent or broken GPU: the inventory says so.
Inventory probe_inventory();

/// Parts that need no CUDA, shared by both variants: CPU, memory, PCI bus, environment. `sysfs_root` is "/sys".
void probe_host(Inventory& inventory, const std::string& sysfs_root);

}  // namespace mgtrain
