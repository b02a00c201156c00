// The inventory of a build without CUDA: the host, and whether NVIDIA hardware is there that it cannot use.
#include "devices/inventory.h"

namespace mgtrain {

Inventory probe_inventory() {
  Inventory inventory;
  probe_host(inventory, "/sys");
  return inventory;
}

}  // namespace mgtrain
