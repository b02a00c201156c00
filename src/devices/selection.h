// Which devices a run uses: a pure function of the user's words and the inventory. product.md ("Devices") owns the
// rules; the book chapter's get_gpus is `missing = skip`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "devices/device.h"
#include "devices/inventory.h"

namespace mgtrain {

struct Selection {
  std::vector<Device> devices;     // the primary first
  std::vector<std::string> notes;  // one line each, for the plan and the log
  std::vector<std::string> warnings;
  bool fell_back_to_cpu = false;  // GPUs were asked for, none are in this machine; the first warning says so
  std::string fallback_reason;
  std::string requested;  // the user's words

  [[nodiscard]] bool on_cpu() const { return devices.front().kind == DeviceKind::kCpu; }
};

/// Throws ConfigError (exit 2) for words that mean nothing, DeviceError (exit 7) for devices that are not usable.
Selection select_devices(const DevicesConfig& request, const Inventory& inventory);

/// A process among those that a launcher started on this machine, each of which uses one device.
struct ProcessPlace {
  int local_rank = 0;
  int local_size = 1;  // 0: nobody says
  int threads = 1;     // CPU: what this process may use
};

/// The one device of such a process: the words name those of the machine, one for each of its processes, and process k
/// takes item k; `cpu` is the CPU for every one of them. A process to which its launcher shows a single GPU takes that
/// one. Throws as select_devices does, and ConfigError where there are more or fewer devices than processes.
Selection select_for_process(const DevicesConfig& request, const Inventory& inventory, const ProcessPlace& place);

}  // namespace mgtrain
