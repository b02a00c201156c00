#include "app/restored_model.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/resume.h"
#include "checkpoint/snapshot.h"
#include "config/render.h"
#include "devices/selection.h"
#include "model/make_model.h"
#include "plan/run_plan.h"

namespace mgtrain {

RestoredModel restore_model(const CommandLine& line, AppContext& context) {
  RestoredModel restored;
  std::vector<std::string> warnings;
  restored.checkpoint = checkpoint_of_run(context.files, line.items.at(0), line.checkpoint, &warnings);
  for (const std::string& warning : warnings) context.log.warning(warning);
  restored.record = read_run_record(context.files, restored.checkpoint);
  const std::string source = restored.checkpoint.string();
  restored.saved = resolve({.base = ConfigBase{restored.record.config_toml, source + " (config)"}}).values;
  ModelDescription description = read_model_json(restored.record.model_json, source);
  restored.spec = std::move(description.spec);
  restored.float64 = description.float64;
  restored.input = read_dataset_json(restored.record.dataset_json, source);

  restored.model = std::make_shared<ResNet>(restored.spec);
  convert_floating(*restored.model, restored.float64 ? at::kDouble : at::kFloat);
  load_strictly(read_model(context.files, restored.checkpoint), state_tensors(*restored.model),
                source + "/model.safetensors");
  context.log.info("using " + source + " (step " + std::to_string(restored.record.state.step) + ")");
  return restored;
}

CheckedConfig config_over(const RunConfig& base, const CommandLine& line, AppContext& context) {
  ConfigSources sources = line.config;
  sources.base = ConfigBase{render_toml(base), "the run's config"};
  std::vector<std::string> warnings;
  CheckedConfig config = check(sources, &warnings);
  for (const std::string& warning : warnings) context.log.warning(warning);
  return config;
}

Inference infer_on(const RestoredModel& restored, const RunConfig& config, AppContext& context) {
  Selection selection = select_devices(config.devices, context.inventory());
  keep_one_device_if_asked(config, selection);
  for (const std::string& warning : selection.warnings) context.log.warning(warning);
  for (const std::string& note : selection.notes) context.log.info(note);
  // "auto" is channels-last, as in training.
  const bool channels_last = config.train.memory_format != "nchw";
  if (channels_last) convert_to_channels_last(*restored.model);
  return {.strategy = make_strategy(restored.model, selection.devices, channels_last, /*label_smoothing=*/0),
          .channels_last = channels_last};
}

}  // namespace mgtrain
