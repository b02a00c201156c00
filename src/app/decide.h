// Everything train decides before it builds anything, in order: place of the run, config, inventory, devices, data
// set, plan. The same for train and plan, so that `mgtrain plan` starts with the exit code train would start with.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/run_folder.h"
#include "comm/process_card.h"
#include "config/check.h"
#include "data/dataset_info.h"
#include "devices/inventory.h"
#include "devices/selection.h"
#include "plan/run_plan.h"

namespace mgtrain {

struct Decision {
  RunPlace place;
  CheckedConfig config;               // of a resumed run: that of its checkpoint, with what the user gave now
  std::vector<std::string> notes;     // of the place and of the weights to start from
  std::vector<std::string> warnings;  // of place and config; the devices' and the plan's are in plan.warnings
  Inventory inventory;
  Selection selection;  // as asked for; plan.selection is what the run uses
  DatasetInfo dataset;
  RunPlan plan;
};

/// A process that a launcher started among others, each a rank with one device.
struct LaunchedProcess {
  std::string launcher;  // "torchrun"
  int rank = 0, ranks = 1;
  PlaceAmong machine;          // among the ranks of this machine; count 0: nobody says
  PlaceAmong cores;            // among those that share this process's cores
  std::optional<int> threads;  // that the user set
  std::vector<std::string> notes;
  std::function<RunPlace()> find_place;  // instead of find_run_place()
};

/// Reads headers only: seconds at most. Throws ConfigError (2), DeviceError (7), DataError (3), or CheckpointError (4)
/// where model.init names nothing that fits or a resumed run is of another network; logs nothing.
Decision decide(const CommandLine& line, AppContext& context, const LaunchedProcess* process = nullptr);

/// What a resumed run does differently from its checkpoint, each said in a line. `fingerprint`: of the data now; empty
/// while they are not read. Throws as compare_for_resume() does.
std::vector<std::string> check_resume(const RunRecord& record, const RunConfig& now, const RunPlan& plan,
                                      bool allow_changes, const std::string& fingerprint);

/// Whether a checkpoint is of a run that has come to its end, with nothing left for the plan to do.
bool nothing_to_do(const RunRecord& record, const RunPlan& plan);

}  // namespace mgtrain
