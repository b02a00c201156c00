// `mgtrain eval RUN`: the loss and accuracy of a run or checkpoint on a data set: the run's own, or that of --data.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "app/commands.h"
#include "app/restored_model.h"
#include "base/error.h"
#include "data/sources.h"
#include "engine/evaluator.h"
#include "observe/console.h"
#include "observe/evaluation.h"

namespace mgtrain {
namespace {

/// What of the training run holds for its evaluation: the data and how they are read, not its devices.
RunConfig evaluation_base(const RestoredModel& restored, const CommandLine& line) {
  RunConfig base;
  const bool other_data = resolve(line.config).origins.at("data.path") != "default";
  if (other_data) {
    base.data.labels = restored.saved.data.labels;
    base.data.workers = restored.saved.data.workers;
  } else {
    base.data = restored.saved.data;
  }
  base.train.batch = restored.saved.train.batch;
  base.train.memory_format = restored.saved.train.memory_format;
  base.train.seed = restored.saved.train.seed;  // decides which samples a share held out is
  return base;
}

void check_fits(const DatasetInfo& dataset, const RestoredModel& restored) {
  const ResNetSpec& spec = restored.spec;
  if (dataset.channels != spec.in_channels) {
    throw DataError(dataset.path.string() + ": images of " + std::to_string(dataset.channels) +
                    " channels; the model of " + restored.checkpoint.string() + " takes " +
                    std::to_string(spec.in_channels));
  }
  if (dataset.num_classes != spec.num_classes) {
    throw DataError(dataset.path.string() + ": " + std::to_string(dataset.num_classes) + " classes; the model of " +
                    restored.checkpoint.string() + " knows " + std::to_string(spec.num_classes));
  }
  if (!dataset.val) {
    throw DataError(dataset.path.string() +
                    ": has no part for evaluation; give --data with one, or --val with a share held out or a path");
  }
}

}  // namespace

ExitCode run_eval(const CommandLine& line, AppContext& context) {
  const RestoredModel restored = restore_model(line, context);
  const CheckedConfig checked = config_over(evaluation_base(restored, line), line, context);
  const RunConfig& config = checked.values();
  const DatasetInfo dataset = inspect_dataset(config.data, embedded_data_candidates(line.program));
  check_fits(dataset, restored);
  const Inference inference = infer_on(restored, config, context);

  const LoadedData data = load_dataset(config.data, dataset, config.train.seed);
  const Transform transform =
      make_transform(restored.input, data.val.shape, config.data,
                     inference.channels_last ? MemoryFormat::kNhwc : MemoryFormat::kNchw, config.train.seed);
  BatchSource source(data.val, transform,
                     {.workers = config.data.workers,
                      .prefetch = config.data.prefetch,
                      .pin_memory = !inference.strategy->primary().is_cpu(),
                      .float64 = restored.float64});
  Evaluator evaluator(*inference.strategy, source, data.val.count(), std::min(config.train.batch, data.val.count()),
                      dataset.num_classes, context.clock);
  // A signal ends the process at once: there is nothing to save.
  EvalReport report = *evaluator.run([](int64_t) { return true; });
  report.step = restored.record.state.step;
  report.epoch = std::max<int64_t>(0, restored.record.state.epoch - 1);

  const std::string checkpoint = restored.checkpoint.string();
  if (line.json) {
    nlohmann::ordered_json json = evaluation_to_json(report, restored.record.class_names);
    json["checkpoint"] = checkpoint;
    json["data"] = dataset.path.string();
    context.out << json.dump() << '\n';
    return ExitCode::kDone;
  }
  if (!line.quiet) {
    context.out << dataset.name << ": " << report.num_samples << " images, checkpoint " << checkpoint << "\n"
                << evaluation_to_text(report, restored.record.class_names) << '\n';
  }
  EndReport end{.reason = "done", .step = report.step, .last_eval = report};
  context.out << last_line(end, line.items.at(0)) << '\n';
  return ExitCode::kDone;
}

}  // namespace mgtrain
