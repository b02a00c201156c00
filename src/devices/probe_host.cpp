// What needs no CUDA: processor, memory, cgroup limits, NVIDIA controllers on the PCI bus, CUDA_VISIBLE_DEVICES.
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "devices/inventory.h"

namespace mgtrain {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kNvidiaVendor = 0x10de;
constexpr unsigned kDisplayClass = 0x03;  // PCI base class: VGA, 3D and other display controllers

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The number at the start of a text, "0x..." or decimal; 0 if there is none.
uint64_t number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

int count_nvidia_controllers(const fs::path& sysfs) {
  int found = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sysfs / "bus/pci/devices", error)) {
    const uint64_t vendor = number(first_line(entry.path() / "vendor"));
    const uint64_t code = number(first_line(entry.path() / "class"));  // 24 bits: base class, subclass, interface
    if (vendor == kNvidiaVendor && code >> 16 == kDisplayClass) ++found;
  }
  return found;
}

/// Folders of this process's cgroup and all above it, for version 2 or one controller of version 1.
std::vector<fs::path> cgroup_folders(const fs::path& root, const std::string& controller) {
  std::ifstream stream("/proc/self/cgroup");
  std::vector<fs::path> folders;
  for (std::string line; std::getline(stream, line);) {
    // "0::/path" or "4:cpu,cpuacct:/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? controllers != ",," : controllers.find("," + controller + ",") == std::string::npos)
      continue;
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path(); !path.empty(); path = path.parent_path()) {
      folders.push_back(root / path);
    }
  }
  folders.push_back(root);  // what a container sees as its own
  return folders;
}

/// CPU time per wall time that cgroups allow.
double cgroup_cores(const fs::path& sysfs) {
  double cores = std::numeric_limits<double>::infinity();
  for (const fs::path& folder : cgroup_folders(sysfs / "fs/cgroup", "")) {
    std::istringstream line(first_line(folder / "cpu.max"));  // "200000 100000" or "max 100000"
    double quota = 0, period = 0;
    if (line >> quota >> period && quota > 0 && period > 0) cores = std::min(cores, quota / period);
  }
  for (const fs::path& folder : cgroup_folders(sysfs / "fs/cgroup/cpu", "cpu")) {
    const uint64_t quota = number(first_line(folder / "cpu.cfs_quota_us"));  // -1: none, read as 0
    const uint64_t period = number(first_line(folder / "cpu.cfs_period_us"));
    if (quota > 0 && period > 0) cores = std::min(cores, static_cast<double>(quota) / static_cast<double>(period));
  }
  return cores;
}

uint64_t cgroup_memory(const fs::path& sysfs) {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  const auto apply = [&](const fs::path& file) {
    if (const uint64_t limit = number(first_line(file)); limit > 0) bytes = std::min(bytes, limit);
  };
  for (const fs::path& folder : cgroup_folders(sysfs / "fs/cgroup", "")) apply(folder / "memory.max");
  for (const fs::path& folder : cgroup_folders(sysfs / "fs/cgroup/memory", "memory")) {
    apply(folder / "memory.limit_in_bytes");
  }
  return bytes;
}

int cores_by_affinity() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more CPUs than cpu_set_t holds
}

std::string cpu_model() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  utsname system{};
  return uname(&system) == 0 ? std::string(system.machine) + " CPU" : "CPU";
}

}  // namespace

void probe_host(Inventory& inventory, const std::string& sysfs_root) {
  const fs::path sysfs(sysfs_root);
  inventory.cpu_name = cpu_model();
  inventory.cpu_cores = cores_by_affinity();
  if (const double quota = cgroup_cores(sysfs); quota < inventory.cpu_cores) {
    inventory.cpu_cores = std::max(1, static_cast<int>(std::ceil(quota)));
  }
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  const uint64_t installed =
      pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
  inventory.host_memory_bytes = std::min(installed, cgroup_memory(sysfs));
  inventory.pci_nvidia_gpus = count_nvidia_controllers(sysfs);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) inventory.cuda_visible_devices = visible;
}

}  // namespace mgtrain
