// Checkpoints are copied between two steps and written while training goes on.
#include "engine/checkpointer.h"

#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cerrno>
#include <latch>

#include "base/error.h"
#include "checkpoint/snapshot.h"
#include "parallel/small_net.h"
#include "support/catch.h"
#include "support/memory_file_system.h"
#include "support/recording_observer.h"

namespace mgtrain::test {
namespace {

/// A small network with its optimizer, saved into memory.
struct Scene {
  MemoryFileSystem files;
  RecordingObserver observer;
  std::unique_ptr<Strategy> strategy = make_single_device(make_net({}), cpu_replicas(1));
  Optimizer optimizer{OptimConfig(), strategy->trainable_parameters()};
  CheckpointStore store{files, "run", 2};
  Checkpointer checkpointer{{.store = store,
                             .strategy = *strategy,
                             .optimizer = optimizer,
                             .observer = observer,
                             .file_lengths = [] { return std::map<std::string, uint64_t>(); }},
                            {}};

  Scene() { files.make_directories("run"); }
  /// Changes every weight.
  void train() {
    const torch::NoGradGuard no_gradients;
    for (const auto& [name, parameter] : strategy->trainable_parameters()) at::Tensor(parameter).add_(1);
  }
  at::Tensor saved_weight(int64_t step) {
    for (const auto& [name, tensor] : read_model(files, store.folder_of(step)))
      if (name == "fc.weight") return tensor;
    return {};
  }
  at::Tensor weight() {
    for (const auto& [name, tensor] : strategy->full_state())
      if (name == "fc.weight") return tensor.detach().clone();
    return {};
  }
};

TrainState at_step(int64_t step) {
  TrainState state;
  state.step = step;
  return state;
}

}  // namespace

TEST_CASE("what is saved is what the weights were, though training goes on before it is written", "[engine]") {
  Scene scene;
  std::latch gate(1);
  scene.files.set_before_create([&] { gate.wait(); });
  const at::Tensor before = scene.weight();
  scene.checkpointer.save(at_step(1));
  scene.train();  // the disk has not begun
  scene.checkpointer.collect();
  CHECK(scene.observer.checkpoints.empty());
  gate.count_down();
  scene.checkpointer.finish();
  REQUIRE(scene.observer.checkpoints.size() == 1);
  CHECK(scene.observer.checkpoints[0].step == 1);
  CHECK(at::equal(scene.saved_weight(1), before));
  CHECK_FALSE(at::equal(scene.weight(), before));
}

TEST_CASE("a second checkpoint waits for the first, and both are reported in order", "[engine]") {
  Scene scene;
  for (int64_t step = 1; step <= 4; ++step) {
    scene.checkpointer.save(at_step(step));
    scene.train();
  }
  scene.checkpointer.finish();
  scene.checkpointer.finish();  // nothing more to report
  std::vector<int64_t> steps;
  for (const CheckpointReport& report : scene.observer.checkpoints) steps.push_back(report.step);
  CHECK(steps == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(scene.store.list().size() == 2);
}

TEST_CASE("a checkpoint that cannot be written is an error at the next look, and the one before stands", "[engine]") {
  Scene scene;
  scene.checkpointer.save(at_step(1));
  scene.checkpointer.finish();
  const at::Tensor first = scene.weight();
  scene.train();
  scene.files.fail_operation(2, ENOSPC);
  scene.checkpointer.save(at_step(2));
  CHECK_THROWS_AS(scene.checkpointer.finish(), OutputError);
  CHECK_NOTHROW(scene.checkpointer.finish());  // told once
  CHECK(at::equal(scene.saved_weight(1), first));
  CHECK(scene.store.list().size() == 1);
}

}  // namespace mgtrain::test
