// The loop with a strategy whose losses and accuracies the test writes: what is due when, and how a run ends.
#include "engine/trainer.h"

#include <torch/types.h>

#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "checkpoint/resume.h"
#include "support/catch.h"
#include "support/fake_plan.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"
#include "support/recording_observer.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

/// One weight with gradient 1; the loss of update n is loss(n), evaluation n gets accuracy[n] of its samples right.
class ScriptedStrategy final : public Strategy {
 public:
  std::function<double(int64_t update)> loss = [](int64_t) { return 1.0; };
  std::vector<double> accuracy = {0.5};
  double seconds_a_step = 1;
  HandClock* clock = nullptr;
  int64_t updates = 0;
  at::Tensor weight = at::zeros({1}).set_requires_grad(true);

  StepSums forward_backward(std::span<const Batch> micro_batches, int64_t global_count) override {
    int64_t count = 0;
    for (const Batch& batch : micro_batches) count += batch.count();
    CHECK(count == global_count);
    clock->advance(seconds_a_step);
    weight.mutable_grad() = at::ones({1});
    const double value = loss(updates++) * static_cast<double>(count);
    return {.loss_sum = at::scalar_tensor(value, at::kDouble), .top1 = at::scalar_tensor(count / 2, at::kLong)};
  }
  EvalSums evaluate(const Batch& batch) override {
    if (batch.samples.front() == 0) ++evaluations_;
    const size_t index = std::min<size_t>(static_cast<size_t>(evaluations_ - 1), accuracy.size() - 1);
    at::Tensor logits = at::zeros({batch.count(), 10});
    for (int64_t i = 0; i < batch.count(); ++i) {
      const bool right = static_cast<double>(batch.samples[static_cast<size_t>(i)]) < accuracy[index] * 10;
      logits[i][right ? 0 : 1] = 1;
    }
    return {.logits_NK = logits, .labels_N = at::zeros({batch.count()}, at::kLong)};
  }
  NamedTensors trainable_parameters() override { return {{"weight", weight}}; }
  NamedTensors full_state() override { return {{"weight", weight}}; }
  void state_changed() override {}
  [[nodiscard]] at::Device primary() const override { return at::kCPU; }

 private:
  int64_t evaluations_ = 0;
};

/// A run of 100 samples in batches of 16 (7 updates an epoch), evaluated on 10.
class TestRun {
 public:
  explicit TestRun(const Flags& flags, TrainState state = {})
      : config_(config_of(flags)),
        plan_(fake_plan(flags, fake_dataset(100, 4))),
        images_(images(100)),
        val_images_(images(10)),
        source_(images_, transform(), {.workers = 0}),
        val_source_(val_images_, transform(), {.workers = 0}),
        feed_(source_, plan_, config_.values().data.drop_last),
        evaluator_(strategy, val_source_, 10, 4, 10, clock),
        optimizer_(config_.values().optim, strategy.trainable_parameters()),
        schedule_(config_.values().optim, 0.1, plan_.steps_per_epoch, plan_.total_steps),
        store_(files, "run", 2),
        checkpointer_({.store = store_,
                       .strategy = strategy,
                       .optimizer = optimizer_,
                       .observer = observer,
                       .file_lengths = [] { return std::map<std::string, uint64_t>(); }},
                      {}) {
    strategy.clock = &clock;
    files.make_directories("run");
    const RunConfig& values = config_.values();
    trainer_ = std::make_unique<Trainer>(TrainerSettings{.total_steps = plan_.total_steps,
                                                         .steps_per_epoch = plan_.steps_per_epoch,
                                                         .train = values.train,
                                                         .clip_grad = values.optim.clip_grad,
                                                         .checkpoint = values.checkpoint,
                                                         .log_every = values.output.log_every},
                                         TrainerParts{.strategy = strategy,
                                                      .optimizer = optimizer_,
                                                      .schedule = schedule_,
                                                      .feed = feed_,
                                                      .evaluator = &evaluator_,
                                                      .checkpointer = &checkpointer_,
                                                      .observer = observer,
                                                      .clock = clock},
                                         state);
  }

  TrainOutcome run() { return trainer_->run(); }
  [[nodiscard]] const TrainState& state() const { return trainer_->state(); }
  [[nodiscard]] std::vector<int64_t> saved() const {
    std::vector<int64_t> steps;
    for (const CheckpointReport& report : observer.checkpoints) steps.push_back(report.step);
    return steps;
  }
  [[nodiscard]] std::vector<int64_t> evaluated() const {
    std::vector<int64_t> steps;
    for (const EvalReport& report : observer.evals) steps.push_back(report.step);
    return steps;
  }

  HandClock clock;
  MemoryFileSystem files;
  RecordingObserver observer;
  ScriptedStrategy strategy;

 private:
  static ImageSet images(int64_t count) {
    ImageSet set;
    set.shape = {1, 4, 4};
    set.pixels.resize(static_cast<size_t>(count * 16));
    set.labels.resize(static_cast<size_t>(count));
    set.num_classes = 10;
    return set;
  }
  static Transform transform() { return {.input = {1, 4, 4}, .output_height = 4, .output_width = 4}; }

  CheckedConfig config_;
  RunPlan plan_;
  ImageSet images_, val_images_;
  BatchSource source_, val_source_;
  TrainFeed feed_;
  Evaluator evaluator_;
  Optimizer optimizer_;
  LrSchedule schedule_;
  CheckpointStore store_;
  Checkpointer checkpointer_;
  std::unique_ptr<Trainer> trainer_;
};

Flags run_flags(Flags more = {}) {
  Flags flags = {{"train.batch", "16"}, {"train.epochs", "3"}, {"devices.gpus", "cpu"}, {"optim.schedule", "constant"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

using Steps = std::vector<int64_t>;

}  // namespace

TEST_CASE("reports are means over the samples since the last one", "[engine]") {
  TestRun run(run_flags({{"output.log_every", "5"}}));
  run.strategy.loss = [](int64_t update) { return static_cast<double>(update); };
  CHECK(run.run().reason == "done");
  Steps steps;
  for (const StepReport& report : run.observer.steps) steps.push_back(report.step);
  CHECK(steps == Steps{5, 10, 15, 20, 21});
  CHECK(run.observer.steps[0].loss == 2);  // updates 0 to 4
  // Updates 5 to 9; the seventh of an epoch (6) has 4 samples.
  CHECK(run.observer.steps[1].loss == Approx((5 * 16 + 6 * 4 + 7 * 16 + 8 * 16 + 9 * 16) / 68.0).epsilon(1e-12));
  CHECK(run.observer.steps[1].top1 == 0.5);
  CHECK(run.observer.steps[1].samples_seen == 148);
  CHECK(run.observer.steps[0].epoch == 0);
  CHECK(run.observer.steps[1].epoch == 1);
  CHECK(run.observer.steps[1].images_per_second == Approx(68 / 5.0));
  CHECK(run.observer.steps.back().epoch == 2);
  CHECK(run.observer.steps[0].grad_norm == 1.0);
  CHECK(run.state().samples_seen == 300);
  CHECK(run.observer.progress.size() >= 21);
}

TEST_CASE("evaluation and checkpoints come at their periods, at a new best and at the end", "[engine]") {
  TestRun run(run_flags({{"train.eval_every", "4"}, {"checkpoint.save_every", "10"}}));
  run.strategy.accuracy = {0.3, 0.2, 0.6, 0.6, 0.1, 0.5};
  CHECK(run.run().exit_code == ExitCode::kDone);
  CHECK(run.evaluated() == Steps{4, 8, 12, 16, 20, 21});
  CHECK(run.observer.evals[0].top1 == 0.3);
  CHECK(run.observer.evals[0].num_samples == 10);
  CHECK(run.observer.evals[2].is_best);
  CHECK_FALSE(run.observer.evals[3].is_best);  // equal is no improvement
  CHECK(run.saved() == Steps{4, 10, 12, 20, 21});
  CHECK(run.state().best_step == 12);
  CHECK(run.state().best_value == 0.6);
  CHECK(run.state().finished);
  CHECK(run.files.is_directory("run/best"));
  CHECK(checkpoint_problem(run.files, "run/best").empty());
  CHECK(read_run_record(run.files, "run/best").state.step == 12);
}

TEST_CASE("early stopping counts evaluations without a better metric", "[engine]") {
  TestRun run(run_flags({{"train.early_stop", "2"}, {"train.eval_every", "2"}}));
  run.strategy.accuracy = {0.1, 0.5, 0.4, 0.6, 0.6, 0.3, 0.9};
  const TrainOutcome outcome = run.run();
  CHECK(outcome.reason == "early stop");
  CHECK(run.state().step == 12);
  CHECK(run.state().finished);
  CHECK(run.saved().back() == 12);
}

TEST_CASE("a loss can be the metric of the best; NaN never is", "[engine]") {
  TestRun run(run_flags({{"checkpoint.best", "val.loss"}}));
  run.strategy.accuracy = {0.2, 0.8, 0.5};
  run.run();
  CHECK(run.state().best_step == 14);
  CHECK(run.state().best_value == run.observer.evals[1].loss);
}

TEST_CASE("the time limit saves and ends well", "[engine]") {
  TestRun run(run_flags({{"train.time_limit", "10s"}, {"train.epochs", "1000"}}));
  const TrainOutcome outcome = run.run();
  CHECK(outcome.reason == "time limit");
  CHECK(outcome.exit_code == ExitCode::kDone);
  CHECK(run.state().step == 10);
  CHECK_FALSE(run.state().finished);
  CHECK(run.saved().back() == 10);
}

TEST_CASE("a loss or gradient that is not finite moves no weight and is never saved", "[engine]") {
  const bool nan = GENERATE(true, false);
  TestRun run(run_flags({{"checkpoint.save_every", "1"}}));
  const double bad = nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  run.strategy.loss = [bad](int64_t update) { return update == 5 ? bad : 1.0; };
  double before = 0;
  try {
    run.run();
    FAIL("no error");
  } catch (const NonFiniteError& error) {
    CHECK(std::string(error.what()).find("step 6") != std::string::npos);
    CHECK(error.code() == ExitCode::kNonFinite);
  }
  CHECK(run.saved() == Steps{1, 2, 3, 4, 5});
  // SGD with Nesterov momentum 0.9 and gradient 1, five times at rate 0.1; weight decay moves it a little.
  before = run.strategy.weight.item<double>();
  CHECK(std::isfinite(before));
  TestRun five(run_flags({{"train.steps", "5"}}));
  five.run();
  CHECK(five.strategy.weight.item<double>() == before);
}

TEST_CASE("an evaluation that was due and cut off is made up for on resume", "[engine]") {
  TrainState state{.step = 7, .epoch = 1, .samples_seen = 100, .best_value = 0.4, .best_step = 7, .last_eval_step = 7};
  TestRun done_before(run_flags(), state);
  done_before.run();
  CHECK(done_before.evaluated() == Steps{14, 21});

  state.last_eval_step = -1;
  TestRun owed(run_flags(), state);
  owed.run();
  CHECK(owed.evaluated() == Steps{7, 14, 21});

  // Stopped between the last update and its evaluation.
  TrainState last{.step = 21, .epoch = 3, .samples_seen = 300, .last_eval_step = 14};
  TestRun at_end(run_flags(), last);
  CHECK(at_end.run().reason == "done");
  CHECK(at_end.evaluated() == Steps{21});
  CHECK(at_end.saved() == Steps{21});
  CHECK(at_end.state().finished);
  CHECK(at_end.strategy.updates == 0);
}

TEST_CASE("a run goes on within an epoch where it was", "[engine]") {
  TrainState state{.step = 9, .epoch = 1, .sample_offset = 32, .samples_seen = 132};
  TestRun run(run_flags({{"output.log_every", "1"}}), state);
  run.run();
  CHECK(run.strategy.updates == 12);
  CHECK(run.observer.steps.front().step == 10);
  CHECK(run.observer.steps.front().epoch == 1);
  CHECK(run.state().samples_seen == 300);
}

TEST_CASE("a rest of an epoch that makes no batch any more is passed over", "[engine]") {
  // 4 of 100 samples are left: less than a batch, and the rest is dropped.
  TrainState state{.step = 9, .epoch = 1, .sample_offset = 96, .samples_seen = 196};
  TestRun run(run_flags({{"data.drop_last", "true"}, {"train.steps", "11"}, {"output.log_every", "1"}}), state);
  run.run();
  CHECK(run.strategy.updates == 2);
  CHECK(run.observer.steps.front().epoch == 2);
  CHECK(run.state().sample_offset == 32);
}

TEST_CASE("the gradient is clipped before the update, its norm reported as it was", "[engine]") {
  TestRun run(run_flags({{"optim.clip_grad", "0.5"},
                         {"optim.momentum", "0"},
                         {"optim.nesterov", "false"},
                         {"optim.weight_decay", "0"},
                         {"train.steps", "1"}}));
  run.run();
  CHECK(run.observer.steps.front().grad_norm == 1.0);
  CHECK(run.strategy.weight.item<double>() == Approx(-0.05).epsilon(1e-5));  // clip's 1e-6 in the divisor
}
