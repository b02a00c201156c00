// Everything decided before step 1, as a value: the answer to "what will this run do".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/check.h"
#include "data/dataset_info.h"
#include "devices/selection.h"
#include "model/resnet_spec.h"

namespace mgtrain {

enum class StrategyKind { kSingle, kDataParallel, kRanks };
/// "single", "dp", "ddp".
const char* strategy_name(StrategyKind strategy);

/// A process among several of a run, each a rank with one device.
struct LaunchPlace {
  std::string launcher;  // "torchrun"; empty: the run has one process
  int64_t rank = 0, ranks = 0;
};

struct RunPlan {
  Selection selection;  // of this process; its notes and warnings are among the plan's own, below
  LaunchPlace launch;
  int64_t num_devices = 0;   // of all processes
  int64_t first_device = 0;  // which of them is this process's first
  StrategyKind strategy = StrategyKind::kSingle;
  std::string strategy_reason;
  DatasetInfo dataset;
  ResNetSpec model;
  int64_t trainable_parameters = 0;  // without what --freeze names
  std::string dtype, memory_format;  // "float32"; "nchw" or "nhwc" (auto resolved)

  int64_t global_batch = 0;
  std::vector<int64_t> device_shares;  // samples of a full batch, per device
  int64_t accumulate = 1;              // pieces a full batch is run in
  std::vector<int64_t> micro_batches;  // sizes over all devices, of a full batch: micro_batch_sizes(plan, global_batch)
  int64_t steps_per_epoch = 0, total_steps = 0, epochs = 0;
  int64_t last_batch = 0;       // size of an epoch's last batch (= global_batch if it divides)
  int64_t dropped_samples = 0;  // per epoch, with drop_last

  std::string optimizer, schedule;
  int64_t warmup_steps = 0;
  double learning_rate = 0;  // in force
  uint64_t seed = 0;

  double flops_per_step = 0;           // forward and backward of a full batch
  uint64_t checkpoint_bytes = 0;       // estimated size of one checkpoint
  std::vector<uint64_t> device_bytes;  // estimated memory needed, per device of this process
  std::vector<std::string> notes, warnings;
};

/// The sizes of the micro-batches that a batch of `count` samples (a full one, or an epoch's last) runs in, none empty:
/// even over the devices (even_shares of each), so that a device's samples of a batch differ from another's by at most
/// one. A short batch runs in fewer pieces, each about as large as a full batch's.
std::vector<int64_t> micro_batch_sizes(const RunPlan& plan, int64_t count);

/// --strategy single: the first device alone, with a note, or a ConfigError where --gpus names several.
void keep_one_device_if_asked(const RunConfig& config, Selection& selection);

/// Throws ConfigError for what config and devices make impossible together. `launch`: where the run has several
/// processes, which all make the same plan but for their own device.
RunPlan make_plan(const CheckedConfig& config, const Selection& selection, const DatasetInfo& dataset,
                  const LaunchPlace& launch = {});

/// "ResNet18 (width 64, ...) on Fashion-MNIST ... on 2 CPU replicas": the run's first line.
std::string headline(const RunPlan& plan);
/// The plan as a table for a person / as plan.json.
std::string render_plan(const RunPlan& plan, const CheckedConfig& config);
nlohmann::ordered_json plan_to_json(const RunPlan& plan);

}  // namespace mgtrain
