// Ten steps of configs/chapter_cifar10.toml on images of noise, through the trainer as it is, writing down the weights
// at the start, every batch and every loss; chapter_test.py computes the same in Python. More arguments are KEY=VALUE.
//   chapter_sample RECIPE OUT.safetensors LOSSES.json [KEY=VALUE...]
#include <torch/types.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/assemble.h"
#include "base/random.h"
#include "checkpoint/tensor_file.h"
#include "config/check.h"
#include "engine/trainer.h"
#include "model/make_model.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"
#include "support/recording_observer.h"

namespace {

using namespace mgtrain;

/// Does what the strategy does, and keeps the batches.
class RecordingStrategy final : public Strategy {
 public:
  RecordingStrategy(std::unique_ptr<Strategy> strategy, NamedTensors& record)
      : strategy_(std::move(strategy)), record_(record) {
    for (const auto& [name, tensor] : strategy_->full_state()) record_.emplace_back("start." + name, tensor.clone());
  }
  StepSums forward_backward(std::span<const Batch> micro_batches, int64_t global_count) override {
    const std::string step = std::to_string(step_++);
    record_.emplace_back("images." + step, micro_batches.front().images.clone());
    record_.emplace_back("labels." + step, micro_batches.front().labels.clone());
    return strategy_->forward_backward(micro_batches, global_count);
  }
  EvalSums evaluate(const Batch& batch) override { return strategy_->evaluate(batch); }
  NamedTensors trainable_parameters() override { return strategy_->trainable_parameters(); }
  NamedTensors full_state() override { return strategy_->full_state(); }
  void state_changed() override { strategy_->state_changed(); }
  [[nodiscard]] at::Device primary() const override { return strategy_->primary(); }

 private:
  std::unique_ptr<Strategy> strategy_;
  NamedTensors& record_;
  int step_ = 0;
};

ImageSet noise(int64_t count) {
  ImageSet set;
  set.shape = {3, 32, 32};
  set.num_classes = 10;
  RandomStream random(1, RandomPurpose::kSyntheticImage, 0, 0);
  for (int64_t i = 0; i < count * set.shape.size(); ++i) set.pixels.push_back(static_cast<uint8_t>(random.below(256)));
  for (int64_t i = 0; i < count; ++i) set.labels.push_back(static_cast<int32_t>(i % 10));
  return set;
}

DatasetInfo description(const ImageSet& images, const DataConfig& config) {
  DatasetInfo info;
  info.format = "cifar10";
  info.name = "noise";
  info.channels = 3;
  info.height = info.width = 32;
  info.num_classes = 10;
  info.train.num_samples = images.count();
  info.input_height = info.input_width = config.resize;
  return info;
}

void train(const std::string& recipe, const std::string& out, const std::string& losses,
           const std::vector<std::string>& settings) {
  const CheckedConfig checked = check({.files = {recipe}, .sets = settings}, nullptr);
  const RunConfig& config = checked.values();
  const ImageSet images = noise(config.train.batch * config.train.steps);
  const DatasetInfo info = description(images, config.data);
  const RunPlan plan = make_plan(checked, select_devices(config.devices, probe_inventory()), info);
  const InputFormat input = input_format(config.data, info, {});
  const bool channels_last = plan.memory_format == "nhwc";
  BatchSource source(images,
                     make_transform(input, images.shape, config.data,
                                    channels_last ? MemoryFormat::kNhwc : MemoryFormat::kNchw, plan.seed),
                     {.workers = config.data.workers, .float64 = plan.dtype == "float64"});
  const auto model = make_model(plan.model, config.model, plan.seed, plan.dtype == "float64" ? at::kDouble : at::kFloat,
                                channels_last);
  NamedTensors record;
  RecordingStrategy strategy(make_strategy(model, plan.selection.devices, channels_last, config.optim.label_smoothing),
                             record);
  Optimizer optimizer(config.optim, strategy.trainable_parameters());
  const LrSchedule schedule(config.optim, plan.learning_rate, plan.steps_per_epoch, plan.total_steps);
  TrainFeed feed(source, plan, config.data.drop_last);
  HandClock clock;
  test::MemoryFileSystem memory;
  memory.make_directories("run");
  CheckpointStore store(memory, "run", 2);
  RecordingObserver observer;
  Checkpointer checkpointer({.store = store,
                             .strategy = strategy,
                             .optimizer = optimizer,
                             .observer = observer,
                             .file_lengths = [] { return std::map<std::string, uint64_t>(); }},
                            {});
  Trainer trainer({.total_steps = plan.total_steps,
                   .steps_per_epoch = plan.steps_per_epoch,
                   .train = config.train,
                   .clip_grad = config.optim.clip_grad,
                   .checkpoint = config.checkpoint,
                   .log_every = Every{1, Every::Unit::kSteps}},
                  {.strategy = strategy,
                   .optimizer = optimizer,
                   .schedule = schedule,
                   .feed = feed,
                   .checkpointer = &checkpointer,
                   .observer = observer,
                   .clock = clock},
                  {});
  trainer.run();

  nlohmann::json values = nlohmann::json::array();
  for (const StepReport& report : observer.steps)
    values.push_back({{"loss", report.loss}, {"grad_norm", *report.grad_norm}, {"lr", report.learning_rate}});
  std::ofstream(losses) << values.dump();
  const auto files = make_posix_file_system();
  const auto file = files->create(out);
  write_safetensors(*file, record, {});
  file->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("usage: chapter_sample RECIPE OUT LOSSES [KEY=VALUE...]\n", stderr), 2;
  try {
    train(argv[1], argv[2], argv[3], {argv + 4, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "chapter_sample: %s\n", error.what()), 1;
  }
}
