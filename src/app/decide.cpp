#include "app/decide.h"

#include <utility>

#include "base/error.h"

namespace mgtrain {

Decision decide(const CommandLine& line, AppContext& context) {
  std::vector<std::string> warnings;
  CheckedConfig config = check(line.config, &warnings);
  const RunConfig& values = config.values();
  const std::string& init = values.model.init;
  if (!init.empty() && !context.files.is_file(init) && !context.files.is_directory(init)) {
    throw CheckpointError("--init " + init +
                          ": no such file or folder; expected a safetensors file, a checkpoint or a run");
  }
  Inventory inventory = probe_inventory();
  Selection selection = select_devices(values.devices, inventory);
  DatasetInfo dataset = inspect_dataset(values.data, embedded_data_candidates(line.program));
  RunPlan plan = make_plan(config, selection, dataset);
  return {std::move(config),    std::move(warnings), std::move(inventory),
          std::move(selection), std::move(dataset),  std::move(plan)};
}

}  // namespace mgtrain
