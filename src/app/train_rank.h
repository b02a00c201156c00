// One rank's part of a training run: the data it sees, its model, strategy and optimizer, and the loop over them. A
// run on one device, or by data parallelism, has one rank. The first rank writes the run's files.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/assemble.h"
#include "app/commands.h"
#include "app/decide.h"
#include "app/run_observers.h"
#include "base/signals.h"
#include "data/sources.h"
#include "engine/trainer.h"

namespace c10d {
class ProcessGroup;
}

namespace mgtrain {

/// What the ranks of a process share: made once, before they start, and only read by them.
struct TrainJob {
  const Decision& decision;
  const CommandLine& line;
  AppContext& context;
  std::filesystem::path folder;
  LoadedData data;
  InputFormat input;
  std::vector<std::string> devices;               // of all ranks, as messages name them
  std::function<void(int64_t step)> on_finished;  // after each step, on the thread of the rank; may be empty
};

class TrainRank {
 public:
  /// Builds all parts, on the calling thread, which is the one to call train(). `device`: the position of this rank's
  /// device in the plan. `group`: of all ranks; none: the run has one, over all devices of the plan. The first rank
  /// reads the checkpoint, and opens the run's files. Throws what its parts do.
  TrainRank(const TrainJob& job, size_t device, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  /// To the end, or to what ends it before. From here on until this object is gone a signal ends the run after its
  /// step, with a checkpoint.
  TrainOutcome train();

  [[nodiscard]] Trainer& trainer() { return *trainer_; }
  [[nodiscard]] const Trainer& trainer() const { return *trainer_; }
  /// None on ranks other than the first.
  [[nodiscard]] RunObservers* observers() { return observers_ ? &*observers_ : nullptr; }

 private:
  [[nodiscard]] std::shared_ptr<ResNet> build_model() const;
  void make_strategy(size_t device, const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  void load_checkpoint();
  void open_files();
  void make_trainer();

  /// Tells how far this rank is.
  class AfterStep final : public Observer {
   public:
    explicit AfterStep(const std::function<void(int64_t)>& tell) : tell_(tell) {}
    void on_progress(const Progress& progress) override {
      if (tell_) tell_(progress.step);
    }

   private:
    const std::function<void(int64_t)>& tell_;
  };

  const TrainJob& job_;
  const RunConfig& config_;
  const RunPlan& plan_;
  bool first_;
  AfterStep after_step_;
  Transform transform_;
  BatchSource train_source_, val_source_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Optimizer> optimizer_;
  LrSchedule schedule_;
  std::optional<CheckpointStore> store_;
  std::optional<RunObservers> observers_;
  std::optional<TrainFeed> feed_;
  std::optional<Evaluator> evaluator_;
  std::optional<Checkpointer> checkpointer_;
  std::optional<Trainer> trainer_;
  std::optional<SavingScope> saving_;
};

}  // namespace mgtrain
