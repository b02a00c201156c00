// The inventory of a build with CUDA. Asks the runtime and NVML only for what creates no CUDA context, so that a run
// leaves nothing on GPUs it does not use. Errors become fields; nothing here throws for a broken GPU.
#include <ATen/detail/CUDAHooksInterface.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "devices/architectures.h"
#include "devices/inventory.h"

namespace mgtrain {
namespace {

/// The few calls of the NVIDIA management library that serve here, loaded at run time: it comes with the driver.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = load<int (*)()>("nvmlInit_v2");
    by_uuid_ = load<int (*)(const char*, void**)>("nvmlDeviceGetHandleByUUID");
    memory_ = load<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo");
    release_ = load<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    shutdown_ = load<int (*)()>("nvmlShutdown");
    ready_ = init && by_uuid_ && memory_ && release_ && shutdown_ && init() == 0;
  }
  ~Nvml() {
    if (ready_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Free bytes of a GPU or MIG instance; 0 if not known.
  [[nodiscard]] uint64_t free_bytes(const std::string& uuid) const {
    void* device = nullptr;
    Memory memory{};
    if (!ready_ || by_uuid_(uuid.c_str(), &device) != 0 || memory_(device, &memory) != 0) return 0;
    return memory.free;
  }
  [[nodiscard]] std::string driver_release() const {
    std::array<char, 96> text{};
    return ready_ && release_(text.data(), static_cast<unsigned>(text.size())) == 0 ? text.data() : "";
  }

 private:
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  template <typename Function>
  Function load(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
  bool ready_ = false;
  int (*by_uuid_)(const char*, void**) = nullptr;
  int (*memory_)(void*, Memory*) = nullptr;
  int (*release_)(char*, unsigned) = nullptr;
  int (*shutdown_)() = nullptr;
};

/// "GPU-8a1f2b3c-...": 16 bytes as nvidia-smi writes them.
std::string uuid_text(const cudaUUID_t& uuid, bool mig) {
  std::string text = mig ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> digits;
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits.data();
  }
  return text;
}

/// "0000:3b:00.0", as the PCI bus has it in sysfs.
std::string bus_id_text(int device) {
  std::array<char, 32> text{};
  if (cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device) != cudaSuccess) return "";
  std::string id = text.data();
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return id;
}

Gpu probe_gpu(int device, int count, const std::vector<std::string>& architectures, const Nvml& nvml) {
  Gpu gpu{.index = device};
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) {
    gpu.unusable = cudaGetErrorString(error);
    return gpu;
  }
  gpu.name = properties.name;
  gpu.is_mig = gpu.name.find(" MIG ") != std::string::npos;  // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
  gpu.uuid = uuid_text(properties.uuid, gpu.is_mig);
  gpu.pci_bus_id = bus_id_text(device);
  gpu.compute_major = properties.major;
  gpu.compute_minor = properties.minor;
  gpu.memory_total = properties.totalGlobalMem;
  gpu.memory_free = nvml.free_bytes(gpu.uuid);
  for (int peer = 0; peer < count; ++peer) {
    int can_access = 0;
    if (peer != device && cudaDeviceCanAccessPeer(&can_access, device, peer) == cudaSuccess && can_access != 0) {
      gpu.peers.push_back(peer);
    }
  }
  int mode = cudaComputeModeDefault;
  if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device) == cudaSuccess &&
      mode == cudaComputeModeProhibited) {
    gpu.unusable = "its compute mode is Prohibited (nvidia-smi -c DEFAULT allows it)";
  }
  if (!architectures.empty() && !runs_on(architectures, properties.major, properties.minor)) {
    gpu.unusable =
        "no kernels for sm_" + std::to_string(properties.major * 10 + properties.minor) + " in this LibTorch";
  }
  return gpu;
}

/// The driver lists GPU instances below /proc/driver/nvidia/capabilities/gpuN/mig as gi0, gi1, ...
bool any_mig_instance() {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/capabilities", error)) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(gpu.path() / "mig", ignored)) {
      if (entry.path().filename().string().starts_with("gi")) return true;
    }
  }
  return false;
}

/// LibTorch's own report of the nvcc flags it was built with; it answers only where a driver does. Empty: not known,
/// then no GPU is refused for it.
std::vector<std::string> libtorch_architectures() {
  try {
    return parse_architectures(at::detail::getCUDAHooks().showConfig());
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

Inventory probe_inventory() {
  // Indices mean PCI bus order, as nvidia-smi's do. Must precede the first CUDA call.
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);

  Inventory inventory;
  probe_host(inventory, "/sys");
  inventory.built_with_cuda = true;
  inventory.cuda_build_version =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  inventory.minimum_driver_version = CUDART_VERSION / 1000 * 1000;  // minor versions of one major are compatible

  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) inventory.driver_version = driver;
  if (!inventory.driver_version) return inventory;

  const Nvml nvml;
  inventory.driver_release = nvml.driver_release();
  inventory.mig_mode_seen = any_mig_instance();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorStubLibrary) {  // a toolkit's link-time stand-in for the driver
    inventory.driver_version.reset();
  } else if (error != cudaSuccess) {
    (void)cudaGetLastError();
    // No device is an ordinary answer (hidden or absent); an old driver speaks through driver_version.
    if (error != cudaErrorNoDevice && error != cudaErrorInsufficientDriver) {
      inventory.initialization_error = cudaGetErrorString(error);
    }
  } else {
    inventory.kernel_architectures = libtorch_architectures();
    for (int device = 0; device < count; ++device) {
      inventory.gpus.push_back(probe_gpu(device, count, inventory.kernel_architectures, nvml));
    }
    for (const Gpu& gpu : inventory.gpus) inventory.mig_mode_seen = inventory.mig_mode_seen || gpu.is_mig;
  }
  return inventory;
}

}  // namespace mgtrain
