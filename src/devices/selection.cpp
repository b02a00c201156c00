#include "devices/selection.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "devices/report.h"
#include "devices/request.h"

namespace mgtrain {
namespace {

constexpr const char* kNoGpuHere = "no NVIDIA GPU in this machine";
constexpr const char* kCpuWayOut = "; --gpus cpu runs on the CPU";
constexpr const char* kOneMigInstance = "CUDA shows one MIG instance per process";

std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

Device device_of(const Gpu& gpu) {
  return {DeviceKind::kCuda, gpu.index, gpu.name, gpu.uuid, gpu.pci_bus_id, gpu.memory_total, 1};
}

/// `replicas` CPU devices that share the cores, the first ones a core more; one is the plain "cpu".
std::vector<Device> cpu_devices(const Inventory& inventory, int replicas) {
  std::vector<Device> devices;
  for (int replica = 0; replica < replicas; ++replica) {
    const int extra = replica < inventory.cpu_cores % replicas ? 1 : 0;
    devices.push_back({.kind = DeviceKind::kCpu,
                       .index = replicas == 1 ? -1 : replica,
                       .name = inventory.cpu_name,
                       .memory_bytes = inventory.host_memory_bytes,
                       .threads = std::max(1, inventory.cpu_cores / replicas + extra)});
  }
  return devices;
}

bool matches(const DeviceItem& item, const Gpu& gpu) {
  return item.is_index() ? item.index() == gpu.index : uuid_starts_with(gpu.uuid, item.uuid());
}

/// What a user typed to ask for GPUs, as items; a count is the first indices.
std::vector<DeviceItem> items_of(const DeviceRequest& request) {
  if (const auto* list = std::get_if<ListRequest>(&request)) return list->items;
  std::vector<DeviceItem> items;
  if (const auto* number = std::get_if<CountRequest>(&request)) {
    for (int index = 0; index < number->count; ++index) items.push_back({index, std::to_string(index)});
  }
  return items;
}

/// One call of select_devices.
class Selector {
 public:
  Selector(const DevicesConfig& config, const Inventory& inventory)
      : inventory_(inventory),
        missing_(config.missing_gpus),
        allow_duplicates_(config.allow_duplicates),
        request_(parse_device_request(config.gpus, config.allow_duplicates, inventory.simulated_devices > 0)) {
    if (!config.primary.empty()) primary_ = parse_primary(config.primary);
    selection_.requested = config.gpus;
  }

  Selection run() {
    if (const auto* cpu = std::get_if<CpuRequest>(&request_)) {
      use_cpu(std::max(1, cpu->replicas));
    } else if (const auto* simulated = std::get_if<SimulatedRequest>(&request_)) {
      use_simulated(simulated->count);
    } else if (std::holds_alternative<AutoRequest>(request_)) {
      select_auto();
    } else {
      select_gpus();
    }
    return std::move(selection_);
  }

 private:
  void use_cpu(int replicas) {
    selection_.devices = cpu_devices(inventory_, replicas);
    if (replicas > inventory_.cpu_cores) {
      selection_.warnings.push_back(std::to_string(replicas) + " CPU replicas share " +
                                    count_of(inventory_.cpu_cores, "core") + ": slower than one replica a core");
    }
    if (primary_) put_primary_replica_first();
  }

  void use_simulated(int count) {
    if (count < 1 || count > inventory_.simulated_devices) {
      throw DeviceError("--gpus " + selection_.requested + ": there are " +
                        count_of(inventory_.simulated_devices, "simulated device"));
    }
    for (int index = 0; index < count; ++index)
      selection_.devices.push_back({.kind = DeviceKind::kSimulated,
                                    .index = index,
                                    .name = "simulated",
                                    .memory_bytes = inventory_.host_memory_bytes});
    if (!primary_) return;
    if (!primary_->is_index() || primary_->index() >= count) refuse_primary();
    put_first(static_cast<size_t>(primary_->index()));
  }

  /// The CPU instead of GPUs that were asked for.
  void fall_back(int replicas, const std::string& why) {
    selection_.fell_back_to_cpu = true;
    selection_.fallback_reason = why;
    use_cpu(replicas);
    selection_.warnings.insert(selection_.warnings.begin(),
                               why + ": --gpus " + selection_.requested + " runs as " +
                                   (replicas == 1 ? std::string("cpu") : "cpu:" + std::to_string(replicas)));
  }

  void select_auto() {
    if (!gpu_hardware_seen(inventory_)) return use_cpu_for_auto(kNoGpuHere);
    if (gpus_hidden_on_purpose(inventory_)) {
      return use_cpu_for_auto("CUDA_VISIBLE_DEVICES=" + in_quotes(*inventory_.cuda_visible_devices) +
                              " hides every GPU");
    }
    if (const auto fault = gpu_fault(inventory_)) throw DeviceError(*fault + kCpuWayOut);
    std::vector<const Gpu*> usable;
    std::string reasons;
    for (const Gpu& gpu : inventory_.gpus) {
      if (gpu.unusable.empty()) {
        usable.push_back(&gpu);
      } else {
        const std::string reason = describe(gpu) + ": " + gpu.unusable;
        reasons += (reasons.empty() ? "" : "; ") + reason;
        selection_.warnings.push_back("left out: " + reason);
      }
    }
    if (usable.empty()) throw DeviceError("no visible GPU is usable: " + reasons + kCpuWayOut);
    keep_one_mig_instance(usable);
    use_gpus(usable);
  }

  void use_cpu_for_auto(const std::string& why) {
    selection_.notes.push_back(why + ": runs on the CPU");
    if (primary_) selection_.notes.push_back("--primary " + primary_->text + " names no GPU here and is not used");
    primary_.reset();
    use_cpu(1);
  }

  void select_gpus() {
    const bool all = std::holds_alternative<AllRequest>(request_);
    const std::vector<DeviceItem> items = items_of(request_);
    const bool hardware = gpu_hardware_seen(inventory_);
    const std::string fault = hardware ? gpu_fault(inventory_).value_or("") : kNoGpuHere;
    if (!fault.empty()) {
      if (missing_ == "skip") return fall_back(1, fault);
      if (missing_ == "auto" && !hardware && !all) return fall_back(static_cast<int>(items.size()), fault);
      throw DeviceError("--gpus " + selection_.requested + ": " + fault + kCpuWayOut);
    }
    std::vector<std::string> absent;
    std::vector<const Gpu*> gpus = all ? all_usable(absent) : resolve(items, absent);
    const bool several_mig = distinct(gpus) > 1 && any_mig(gpus);
    if (missing_ != "skip") {
      if (several_mig) absent.push_back(std::string("more than one device asked for, but ") + kOneMigInstance);
      if (!absent.empty()) refuse_absent(absent);
    } else {
      for (const std::string& one : absent) selection_.warnings.push_back("skipped: " + one);
      keep_one_mig_instance(gpus);
      if (gpus.empty()) return fall_back(1, "none of the GPUs asked for is usable");
    }
    if (const auto* number = std::get_if<CountRequest>(&request_)) note_count(number->count);
    use_gpus(gpus);
  }

  std::vector<const Gpu*> all_usable(std::vector<std::string>& absent) const {
    std::vector<const Gpu*> gpus;
    for (const Gpu& gpu : inventory_.gpus) add_if_usable(gpu, gpus, absent);
    return gpus;
  }

  static void add_if_usable(const Gpu& gpu, std::vector<const Gpu*>& gpus, std::vector<std::string>& absent) {
    if (gpu.unusable.empty()) {
      gpus.push_back(&gpu);
    } else {
      absent.push_back(describe(gpu) + " is unusable: " + gpu.unusable);
    }
  }

  std::vector<const Gpu*> resolve(const std::vector<DeviceItem>& items, std::vector<std::string>& absent) const {
    std::vector<const Gpu*> gpus;
    for (const DeviceItem& item : items) {
      const Gpu* gpu = find(item);
      if (gpu == nullptr) {
        absent.push_back(item.is_index() ? "there is no GPU " + item.text : "no visible GPU is " + item.text);
        continue;
      }
      if (!allow_duplicates_ && std::ranges::find(gpus, gpu) != gpus.end()) {
        throw ConfigError("--gpus " + in_quotes(selection_.requested) + ": " + in_quotes(item.text) + " names " +
                          describe(*gpu) + " a second time");
      }
      add_if_usable(*gpu, gpus, absent);
    }
    return gpus;
  }

  const Gpu* find(const DeviceItem& item) const {
    const Gpu* found = nullptr;
    for (const Gpu& gpu : inventory_.gpus) {
      if (!matches(item, gpu)) continue;
      if (found != nullptr) {
        throw ConfigError("--gpus " + in_quotes(selection_.requested) + ": " + in_quotes(item.text) + " fits " +
                          found->uuid + " and " + gpu.uuid + "; write more of it");
      }
      found = &gpu;
    }
    return found;
  }

  static size_t distinct(const std::vector<const Gpu*>& gpus) { return std::set(gpus.begin(), gpus.end()).size(); }
  static bool any_mig(const std::vector<const Gpu*>& gpus) { return std::ranges::any_of(gpus, &Gpu::is_mig); }

  void keep_one_mig_instance(std::vector<const Gpu*>& gpus) {
    if (distinct(gpus) < 2 || !any_mig(gpus)) return;
    selection_.warnings.push_back(std::string(kOneMigInstance) + ": only " + describe(*gpus.front()) + " is used");
    gpus.resize(1);
  }

  [[noreturn]] void refuse_absent(const std::vector<std::string>& absent) const {
    std::string message = "--gpus " + selection_.requested + ": ";
    for (size_t i = 0; i < absent.size(); ++i) message += (i == 0 ? "" : "; ") + absent[i];
    const bool mig = inventory_.mig_mode_seen || std::ranges::any_of(inventory_.gpus, &Gpu::is_mig);
    if (mig && message.find(kOneMigInstance) == std::string::npos) message += std::string("; ") + kOneMigInstance;
    message += ". Visible: ";
    for (size_t i = 0; i < inventory_.gpus.size(); ++i) message += (i == 0 ? "" : ", ") + describe(inventory_.gpus[i]);
    if (inventory_.cuda_visible_devices) {
      message += " (CUDA_VISIBLE_DEVICES=" + in_quotes(*inventory_.cuda_visible_devices) + " chooses and numbers them)";
    }
    throw DeviceError(message + kCpuWayOut);
  }

  void note_count(int count) {
    if (static_cast<size_t>(count) >= inventory_.gpus.size()) return;
    const std::string number = std::to_string(count);
    selection_.notes.push_back(number + " is a count; GPU " + number + " is `" + number + ",`");
  }

  void use_gpus(const std::vector<const Gpu*>& gpus) {
    for (const Gpu* gpu : gpus) selection_.devices.push_back(device_of(*gpu));
    if (!primary_) return;
    std::vector<size_t> fits;
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (matches(*primary_, *gpus[i]) && (fits.empty() || gpus[fits.front()] != gpus[i])) fits.push_back(i);
    }
    if (fits.size() > 1) throw ConfigError("--primary " + primary_->text + " fits several GPUs; write more of it");
    if (fits.size() == 1) return put_first(fits.front());
    if (missing_ == "skip") {
      selection_.warnings.push_back("skipped: --primary " + primary_->text + "; the primary device is " +
                                    selection_.devices.front().label());
      return;
    }
    refuse_primary();
  }

  /// On the CPU: the replica of that number, or the one that stands for the GPU of that name.
  void put_primary_replica_first() {
    const std::vector<DeviceItem> items = items_of(request_);
    for (size_t i = 0; i < items.size() && i < selection_.devices.size(); ++i) {
      const DeviceItem& item = items[i];
      if (item.is_index() != primary_->is_index()) continue;
      const bool same = item.is_index() ? item.index() == primary_->index()
                                        : uuid_starts_with(item.uuid(), primary_->uuid()) ||
                                              uuid_starts_with(primary_->uuid(), item.uuid());
      if (same) return put_first(i);
    }
    const bool cpu_asked = std::holds_alternative<CpuRequest>(request_);
    if (cpu_asked && primary_->is_index() && static_cast<size_t>(primary_->index()) < selection_.devices.size()) {
      return put_first(static_cast<size_t>(primary_->index()));
    }
    // An index cannot be compared with a UUID of a GPU that is not here.
    const bool comparable = cpu_asked || std::ranges::all_of(items, [&](const DeviceItem& item) {
                              return item.is_index() == primary_->is_index();
                            });
    if (comparable && missing_ != "skip") refuse_primary();
    selection_.notes.push_back("--primary " + primary_->text + " names no GPU here and is not used");
  }

  [[noreturn]] void refuse_primary() const {
    throw ConfigError("--primary " + primary_->text + " is none of --gpus " + selection_.requested);
  }

  void put_first(size_t position) {
    const auto begin = selection_.devices.begin();
    std::rotate(begin, begin + static_cast<std::ptrdiff_t>(position),
                begin + static_cast<std::ptrdiff_t>(position) + 1);
  }

  const Inventory& inventory_;
  std::string missing_;
  bool allow_duplicates_;
  DeviceRequest request_;
  std::optional<DeviceItem> primary_;
  Selection selection_;
};

}  // namespace

Selection select_devices(const DevicesConfig& request, const Inventory& inventory) {
  return Selector(request, inventory).run();
}

namespace {

/// Whether a launcher gave this process a GPU of its own.
bool shown_one_gpu(const DeviceRequest& request, const Inventory& inventory, const ProcessPlace& place) {
  const bool wants_gpus =
      !std::holds_alternative<CpuRequest>(request) && !std::holds_alternative<SimulatedRequest>(request);
  return wants_gpus && place.local_size != 1 && inventory.gpus.size() == 1 && gpu_hardware_seen(inventory) &&
         !gpu_fault(inventory);
}

[[noreturn]] void refuse_number(const std::string& requested, size_t devices, int processes) {
  throw ConfigError("--gpus " + requested + " is " + count_of(static_cast<int64_t>(devices), "device") +
                    ", and this machine has " + count_of(processes, "rank") +
                    ", each with a device of its own; name as many devices as ranks: rank k of the machine takes the "
                    "k-th");
}

}  // namespace

Selection select_for_process(const DevicesConfig& request, const Inventory& inventory, const ProcessPlace& place) {
  DevicesConfig words = request;
  const bool simulated = inventory.simulated_devices > 0;
  if (shown_one_gpu(parse_device_request(request.gpus, request.allow_duplicates, simulated), inventory, place)) {
    words.gpus = "all";
    words.primary.clear();
  }
  Selection selection = select_devices(words, inventory);
  selection.requested = request.gpus;
  std::vector<Device>& devices = selection.devices;
  const bool shared = devices.size() == 1 && (selection.on_cpu() || words.gpus != request.gpus);
  const auto own = shared ? size_t{0} : static_cast<size_t>(place.local_rank);
  if (!shared && place.local_size > 0 && devices.size() != static_cast<size_t>(place.local_size))
    refuse_number(request.gpus, devices.size(), place.local_size);
  if (own >= devices.size()) refuse_number(request.gpus, devices.size(), place.local_rank + 1);
  devices = {devices[own]};
  if (selection.on_cpu()) devices.front().threads = place.threads;
  return selection;
}

}  // namespace mgtrain
