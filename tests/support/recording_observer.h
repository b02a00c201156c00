// An observer that keeps all it was told, for tests of what reports to observers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "observe/observer.h"

namespace mgtrain {

struct RecordingObserver final : Observer {
  std::vector<StartReport> starts;
  std::vector<Progress> progress;
  std::vector<StepReport> steps;
  std::vector<EvalReport> evals;
  std::vector<CheckpointReport> checkpoints;
  std::vector<std::pair<std::string, std::string>> warnings;  // kind, text
  struct Fallback {
    std::string requested, used, reason;
  };
  std::vector<Fallback> fallbacks;
  std::vector<ScalingReport> scalings;
  std::vector<EndReport> ends;
  int num_flushes = 0;
  std::vector<std::string> order;  // "start", "step", ... without progress

  void on_start(const StartReport& report) override { keep(starts, report, "start"); }
  void on_progress(const Progress& report) override { progress.push_back(report); }
  void on_step(const StepReport& report) override { keep(steps, report, "step"); }
  void on_eval(const EvalReport& report) override { keep(evals, report, "eval"); }
  void on_checkpoint(const CheckpointReport& report) override { keep(checkpoints, report, "checkpoint"); }
  void on_warning(const std::string& kind, const std::string& text) override {
    keep(warnings, {kind, text}, "warning");
  }
  void on_device_fallback(const std::string& requested, const std::string& used, const std::string& reason) override {
    keep(fallbacks, {requested, used, reason}, "device_fallback");
  }
  void on_scaling(const ScalingReport& report) override { keep(scalings, report, "scaling"); }
  void on_end(const EndReport& report) override { keep(ends, report, "end"); }
  void flush() override {
    ++num_flushes;
    order.emplace_back("flush");
  }

 private:
  template <typename T>
  void keep(std::vector<T>& list, const T& value, const char* name) {
    list.push_back(value);
    order.emplace_back(name);
  }
};

}  // namespace mgtrain
