// Everything train decides before it builds anything, in order: config, inventory, devices, data set, plan. The same
// for train, plan and eval, so that `mgtrain plan` starts with the exit code train would start with.
#pragma once

#include <string>
#include <vector>

#include "app/commands.h"
#include "config/check.h"
#include "data/dataset_info.h"
#include "devices/inventory.h"
#include "devices/selection.h"
#include "plan/run_plan.h"

namespace mgtrain {

struct Decision {
  CheckedConfig config;
  std::vector<std::string> warnings;  // of the config; the devices' and the plan's are in plan.warnings
  Inventory inventory;
  Selection selection;  // as asked for; plan.selection is what the run uses
  DatasetInfo dataset;
  RunPlan plan;
};

/// Reads headers only: seconds at most. Throws ConfigError (2), DeviceError (7), DataError (3), or CheckpointError (4)
/// where model.init names nothing; logs nothing.
Decision decide(const CommandLine& line, AppContext& context);

}  // namespace mgtrain
