// The network of a run or checkpoint, ready to classify: what eval and predict share.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "app/assemble.h"
#include "app/commands.h"
#include "checkpoint/run_record.h"
#include "config/check.h"
#include "parallel/strategy.h"

namespace mgtrain {

struct RestoredModel {
  std::filesystem::path checkpoint;
  RunRecord record;
  RunConfig saved;  // the configuration it was trained with
  ResNetSpec spec;
  bool float64 = false;
  InputFormat input;
  std::shared_ptr<ResNet> model;  // on the CPU
};

/// RUN is line.items[0]; line.checkpoint chooses in it. Damaged checkpoints passed over are logged. Throws
/// CheckpointError.
RestoredModel restore_model(const CommandLine& line, AppContext& context);

/// The user's configuration of eval or predict over `base`, checked; warnings are logged.
CheckedConfig config_over(const RunConfig& base, const CommandLine& line, AppContext& context);

struct Inference {
  std::unique_ptr<Strategy> strategy;
  bool channels_last = false;
};
/// The model on the devices that the config names (--gpus and its rules); what was decided is logged.
Inference infer_on(const RestoredModel& restored, const RunConfig& config, AppContext& context);

}  // namespace mgtrain
