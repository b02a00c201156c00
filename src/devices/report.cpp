#include "devices/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace mgtrain {
namespace {

std::string gibibytes(uint64_t bytes) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f GiB", static_cast<double>(bytes) / (1024.0 * 1024 * 1024));
  return text.data();
}

/// The first driver series that serves a CUDA major version (CUDA release notes, table of minimum drivers).
std::string driver_series(int cuda_version) {
  switch (cuda_version / 1000) {
    case 12:
      return ", a driver of the 525 series or newer";
    case 13:
      return ", a driver of the 580 series or newer";
    default:
      return "";
  }
}

std::string peers_text(const Gpu& gpu) {
  std::string text;
  for (const int peer : gpu.peers) text += (text.empty() ? "" : ",") + std::to_string(peer);
  return text.empty() ? "none" : text;
}

using Row = std::vector<std::string>;

/// Rows as columns, two blanks apart.
std::string align(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string driver_text(const Inventory& inventory) {
  if (!inventory.built_with_cuda) return "not looked for (this mgtrain was built without CUDA)";
  if (!inventory.driver_version) return "none";
  const std::string release = inventory.driver_release.empty() ? "" : inventory.driver_release + ", ";
  return release + "serves CUDA " + cuda_version_text(*inventory.driver_version);
}

}  // namespace

std::string count_of(int64_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string describe(const Gpu& gpu) {
  std::string details = gpu.name;
  for (const std::string* part : {&gpu.uuid, &gpu.pci_bus_id}) {
    if (!part->empty()) details += (details.empty() ? "" : ", ") + *part;
  }
  return "GPU " + std::to_string(gpu.index) + (details.empty() ? "" : " (" + details + ")");
}

bool gpu_hardware_seen(const Inventory& inventory) {
  return inventory.pci_nvidia_gpus > 0 || !inventory.gpus.empty() || !inventory.initialization_error.empty();
}

bool gpus_hidden_on_purpose(const Inventory& inventory) {
  if (!inventory.gpus.empty() || !inventory.cuda_visible_devices) return false;
  std::string text = *inventory.cuda_visible_devices;
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t'; });
  return text.empty() || text == "-1";
}

std::optional<std::string> gpu_fault(const Inventory& inventory) {
  const std::string hardware = count_of(inventory.pci_nvidia_gpus, "NVIDIA GPU") + " on the PCI bus";
  if (!inventory.built_with_cuda) {
    return "this mgtrain was built without CUDA, and the machine has " + hardware +
           "; build it with -DMGTRAIN_CUDA=ON and a LibTorch for CUDA";
  }
  if (!inventory.driver_version) {
    return "no NVIDIA driver answers (libcuda.so.1 is missing), and the machine has " + hardware +
           "; install the driver, or start the container with access to the GPUs (docker run --gpus all)";
  }
  if (*inventory.driver_version < inventory.minimum_driver_version) {
    return "the NVIDIA driver is too old: it serves CUDA " + cuda_version_text(*inventory.driver_version) +
           ", this build needs CUDA " + cuda_version_text(inventory.minimum_driver_version) +
           driver_series(inventory.minimum_driver_version);
  }
  if (!inventory.initialization_error.empty()) return "CUDA could not start: " + inventory.initialization_error;
  if (!inventory.gpus.empty()) return std::nullopt;
  if (inventory.cuda_visible_devices) {
    return "CUDA_VISIBLE_DEVICES=\"" + *inventory.cuda_visible_devices +
           "\" leaves no GPU visible, and the machine has " + hardware + "; unset it, or name GPUs that exist";
  }
  if (inventory.mig_mode_seen) {
    return "a GPU is in MIG mode and shows no instance to this process; create one (nvidia-smi mig -cgi ... -C), or "
           "name it: CUDA_VISIBLE_DEVICES=MIG-...";
  }
  return "the driver shows no GPU, and the machine has " + hardware +
         "; this process or container has no access to /dev/nvidia*";
}

std::string render_inventory(const Inventory& inventory) {
  std::string text;
  if (!inventory.gpus.empty()) {
    std::vector<Row> rows{{"GPU", "name", "UUID", "PCI bus", "sm", "memory free", "total", "peers", "state"}};
    for (const Gpu& gpu : inventory.gpus) {
      rows.push_back({std::to_string(gpu.index), gpu.name, gpu.uuid, gpu.pci_bus_id,
                      std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor),
                      gpu.memory_free == 0 ? "unknown" : gibibytes(gpu.memory_free), gibibytes(gpu.memory_total),
                      peers_text(gpu), gpu.unusable.empty() ? "usable" : "unusable: " + gpu.unusable});
    }
    text += align(rows);
  } else if (!gpu_hardware_seen(inventory)) {
    text += "GPU: no NVIDIA GPU in this machine\n";
  }
  if (gpu_hardware_seen(inventory)) {
    if (const auto fault = gpu_fault(inventory)) text += "GPU: " + *fault + "\n";
  }
  std::vector<Row> rows{{"driver:", driver_text(inventory)}};
  if (inventory.built_with_cuda) {
    std::string kernels;
    for (const std::string& one : inventory.kernel_architectures) kernels += " " + one;
    rows.push_back(
        {"LibTorch:", "CUDA " + inventory.cuda_build_version + (kernels.empty() ? "" : ", kernels for" + kernels)});
  }
  if (inventory.cuda_visible_devices) {
    rows.push_back({"CUDA_VISIBLE_DEVICES:", "\"" + *inventory.cuda_visible_devices + "\""});
  }
  rows.push_back({"CPU:", inventory.cpu_name + ", " + count_of(inventory.cpu_cores, "core") + " usable, " +
                              gibibytes(inventory.host_memory_bytes) + " memory"});
  return text + align(rows);
}

nlohmann::ordered_json inventory_to_json(const Inventory& inventory) {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (const Gpu& gpu : inventory.gpus) {
    gpus.push_back({{"index", gpu.index},
                    {"name", gpu.name},
                    {"uuid", gpu.uuid},
                    {"pci_bus_id", gpu.pci_bus_id},
                    {"compute_capability", std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor)},
                    {"memory_total_bytes", gpu.memory_total},
                    {"memory_free_bytes",
                     gpu.memory_free == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(gpu.memory_free)},
                    {"peers", gpu.peers},
                    {"mig", gpu.is_mig},
                    {"usable", gpu.unusable.empty()},
                    {"why_unusable", gpu.unusable}});
  }
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  const auto fault = gpu_hardware_seen(inventory) ? gpu_fault(inventory) : std::nullopt;
  return {
      {"gpus", gpus},
      {"gpu_fault", or_null(fault)},
      {"pci_nvidia_gpus", inventory.pci_nvidia_gpus},
      {"mig_mode_seen", inventory.mig_mode_seen},
      {"cuda_visible_devices", or_null(inventory.cuda_visible_devices)},
      {"driver",
       {{"release", inventory.driver_release},
        {"version", or_null(inventory.driver_version)},
        {"minimum_version", inventory.minimum_driver_version}}},
      {"build",
       {{"cuda", inventory.built_with_cuda},
        {"cuda_version", inventory.cuda_build_version},
        {"kernel_architectures", inventory.kernel_architectures}}},
      {"cpu",
       {{"name", inventory.cpu_name}, {"cores", inventory.cpu_cores}, {"memory_bytes", inventory.host_memory_bytes}}}};
}

}  // namespace mgtrain
