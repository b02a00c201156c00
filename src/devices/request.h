// The words of --gpus as a value: what was asked for, before anyone looks at the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mgtrain {

/// An index among the visible GPUs, or a UUID (or the start of one) such as "GPU-8a1f" or "MIG-".
struct DeviceItem {
  std::variant<int, std::string> what;
  std::string text;  // as written, for messages

  [[nodiscard]] bool is_index() const { return std::holds_alternative<int>(what); }
  [[nodiscard]] int index() const { return std::get<int>(what); }
  [[nodiscard]] const std::string& uuid() const { return std::get<std::string>(what); }
};

struct AutoRequest {};
struct AllRequest {};
struct CountRequest {
  int count = 0;
};
struct ListRequest {
  std::vector<DeviceItem> items;
};
struct CpuRequest {
  int replicas = 0;  // 0: the CPU as one device
};
struct SimulatedRequest {
  int count = 0;
};
using DeviceRequest = std::variant<AutoRequest, AllRequest, CountRequest, ListRequest, CpuRequest, SimulatedRequest>;

/// Reads --gpus. Throws ConfigError naming the item for what means nothing: empty items, negative numbers, text, 0,
/// a descending range, and (unless `allow_duplicates`) the same item twice. "sim:N" is text too where the inventory has
/// no simulated devices.
DeviceRequest parse_device_request(std::string_view text, bool allow_duplicates, bool simulated = false);

/// Reads --primary: one item (a trailing comma is allowed).
DeviceItem parse_primary(std::string_view text);

/// Whether `uuid` starts with `prefix`, letter case aside.
bool uuid_starts_with(std::string_view uuid, std::string_view prefix);

}  // namespace mgtrain
