#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "devices/inventory.h"
#include "support/catch.h"

using namespace mgtrain;
namespace fs = std::filesystem;

namespace {

/// A sysfs of our own making, removed at the end.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string path = (fs::temp_directory_path() / "mgtrain-sysfs-XXXXXX").string();
    root_ = mkdtemp(path.data());
  }
  ~FakeSysfs() { fs::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  void pci(const std::string& address, const std::string& vendor, const std::string& code) const {
    write("bus/pci/devices/" + address + "/vendor", vendor);
    write("bus/pci/devices/" + address + "/class", code);
  }
  [[nodiscard]] Inventory probe() const {
    Inventory inventory;
    probe_host(inventory, root_.string());
    return inventory;
  }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("NVIDIA display and 3D controllers on the PCI bus are counted, and nothing else", "[devices]") {
  const FakeSysfs sysfs;
  CHECK(sysfs.probe().pci_nvidia_gpus == 0);
  sysfs.pci("0000:01:00.0", "0x10de", "0x030000");  // NVIDIA VGA
  sysfs.pci("0000:01:00.1", "0x10de", "0x040300");  // its audio function
  sysfs.pci("0000:3b:00.0", "0x10de", "0x030200");  // NVIDIA 3D controller (data centre)
  sysfs.pci("0000:05:00.0", "0x10de", "0x068000");  // NVSwitch: a bridge
  sysfs.pci("0000:00:02.0", "0x8086", "0x030000");  // another vendor's display
  sysfs.pci("0000:06:00.0", "", "");                // unreadable
  CHECK(sysfs.probe().pci_nvidia_gpus == 2);
}

TEST_CASE("a cgroup quota limits the cores, rounded up, and never below one", "[devices]") {
  const int free_cores = FakeSysfs().probe().cpu_cores;
  REQUIRE(free_cores >= 1);
  const FakeSysfs sysfs;
  sysfs.write("fs/cgroup/cpu.max", "max 100000");
  CHECK(sysfs.probe().cpu_cores == free_cores);
  sysfs.write("fs/cgroup/cpu.max", "20000 100000");
  CHECK(sysfs.probe().cpu_cores == 1);
  sysfs.write("fs/cgroup/cpu.max", "150000 100000");
  CHECK(sysfs.probe().cpu_cores == std::min(2, free_cores));
  sysfs.write("fs/cgroup/cpu.max", "garbage");
  CHECK(sysfs.probe().cpu_cores == free_cores);
}

TEST_CASE("cgroup version 1 quotas count too", "[devices]") {
  const FakeSysfs sysfs;
  sysfs.write("fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  sysfs.write("fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(sysfs.probe().cpu_cores == 1);
  sysfs.write("fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  CHECK(sysfs.probe().cpu_cores == FakeSysfs().probe().cpu_cores);
}

TEST_CASE("memory is what is installed, or the cgroup's limit below it", "[devices]") {
  const FakeSysfs sysfs;
  const uint64_t installed = sysfs.probe().host_memory_bytes;
  CHECK(installed > uint64_t{64} << 20);
  sysfs.write("fs/cgroup/memory.max", "max");
  CHECK(sysfs.probe().host_memory_bytes == installed);
  sysfs.write("fs/cgroup/memory.max", "67108864");
  CHECK(sysfs.probe().host_memory_bytes == 67108864);
  CHECK_FALSE(sysfs.probe().cpu_name.empty());
}

TEST_CASE("CUDA_VISIBLE_DEVICES is kept as it is: unset, empty or a list", "[devices]") {
  const char* before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::optional<std::string> saved = before ? std::optional<std::string>(before) : std::nullopt;
  const FakeSysfs sysfs;
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK_FALSE(sysfs.probe().cuda_visible_devices.has_value());
  for (const char* text : {"", "1,0", "GPU-8a1f", "-1"}) {
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
    CHECK(sysfs.probe().cuda_visible_devices == std::optional<std::string>(text));
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
  if (saved) setenv("CUDA_VISIBLE_DEVICES", saved->c_str(), 1);
}
