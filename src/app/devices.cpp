// `mgtrain devices`: what this machine has, and why a GPU cannot be used. Exit 0 whatever it finds.
#include <ostream>

#include "app/commands.h"
#include "devices/report.h"

namespace mgtrain {

ExitCode run_devices(const CommandLine& line, AppContext& context) {
  const Inventory inventory = context.inventory();
  if (line.json) {
    context.out << inventory_to_json(inventory).dump(2) << '\n';
  } else {
    context.out << render_inventory(inventory);
  }
  return ExitCode::kDone;
}

}  // namespace mgtrain
