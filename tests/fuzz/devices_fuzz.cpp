// The words of --gpus, of --primary (behind the first line) and of --missing-gpus, and which of a machine's devices
// they choose. The first byte says how many GPUs the machine has, and of which kind.
#include "base/error.h"
#include "devices/request.h"
#include "devices/selection.h"
#include "fuzz/fuzz.h"
#include "support/fake_inventory.h"

using namespace mgtrain;

namespace {

Inventory machine_of(uint8_t kind) {
  Inventory machine = test::fake_inventory(kind % 5);
  machine.simulated_devices = (kind & 16) != 0 ? 4 : 0;
  if ((kind & 32) != 0) {
    for (Gpu& gpu : machine.gpus) gpu.uuid = test::fake_uuid(gpu.index, "MIG"), gpu.is_mig = true;
    machine.mig_mode_seen = true;
  }
  if ((kind & 64) != 0 && !machine.gpus.empty()) machine.gpus.front().unusable = "no kernels for it";
  if ((kind & 128) != 0) machine = test::without_visible_gpus(machine);
  return machine;
}

void parse(const std::string& gpus, const std::string& primary) {
  for (const bool duplicates : {false, true}) {
    try {
      const DeviceRequest request = parse_device_request(gpus, duplicates, /*simulated=*/true);
      if (const auto* list = std::get_if<ListRequest>(&request)) {
        fuzz::demand(!list->items.empty() && list->items.size() <= 2048, "a list has items, and not too many");
        for (const DeviceItem& item : list->items) fuzz::touch(std::string_view(item.text));
      }
    } catch (const ConfigError& error) {
      fuzz::touch(std::string_view(error.what()));
    }
  }
  try {
    fuzz::touch(std::string_view(parse_primary(primary).text));
  } catch (const ConfigError& error) {
    fuzz::touch(std::string_view(error.what()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Inventory machine = machine_of(data[0]);
  const std::string text = fuzz::text_of(data + 1, size - 1);
  const size_t line = text.find('\n');
  const std::string gpus = text.substr(0, line), primary = line == std::string::npos ? "" : text.substr(line + 1);
  parse(gpus, primary);
  for (const char* missing : {"auto", "error", "skip"}) {
    try {
      DevicesConfig config;
      config.gpus = gpus;
      config.primary = primary;
      config.missing_gpus = missing;
      const Selection selection = select_devices(config, machine);
      fuzz::demand(!selection.devices.empty() && selection.devices.size() <= 2048, "a run has devices");
      for (const Device& device : selection.devices) {
        fuzz::touch(std::string_view(device.label()));
        fuzz::demand(device.kind != DeviceKind::kCuda ||
                         (device.index >= 0 && static_cast<size_t>(device.index) < machine.gpus.size()),
                     "a GPU that is chosen is there");
        fuzz::demand(device.threads >= 1, "a device has a thread");
      }
      fuzz::touch(selection.notes);
      fuzz::touch(selection.warnings);
    } catch (const ConfigError& error) {
      fuzz::touch(std::string_view(error.what()));
    } catch (const DeviceError& error) {
      fuzz::touch(std::string_view(error.what()));
    }
  }
  return 0;
}
