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

}  // namespace mgtrain
