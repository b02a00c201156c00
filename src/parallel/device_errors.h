// What a device did wrong, as the errors that users meet: which device, with how many samples, and what to try.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mgtrain {

/// What was being computed when a device failed.
struct DeviceWork {
  std::string device;   // as messages name it: "cuda:1", "cpu replica 2"
  std::string phase;    // "forward", "backward", "update"
  int64_t samples = 0;  // this device's share
  int64_t batch = 0;    // samples over all devices
  /// Where several devices worked at once: name and share of each. If the failure's text names one, it is that one.
  std::vector<std::pair<std::string, int64_t>> candidates;
};

/// Call within a catch block. Rethrows the current exception: out of memory as OutOfMemoryError with a smaller batch
/// to try, other failures of LibTorch or the system as DeviceError; errors of mgtrain and std::logic_error (a bug)
/// as they are.
[[noreturn]] void rethrow_as_device_error(const DeviceWork& work);

}  // namespace mgtrain
