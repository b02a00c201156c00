// What a run came to, collected from its reports: summary.json in the run folder, and a short table for a person.
// Of a resumed run it tells of the part after the resume (times, speed), with the results of the whole.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "observe/observer.h"

namespace mgtrain {

struct RunSummary {
  StartReport start;
  EndReport end;
  std::vector<std::string> class_names;  // may be empty: "class 0" ...
  std::vector<std::string> warnings;     // of on_warning and of the end report, each once
  struct Fallback {
    std::string requested, used, reason;
  };
  std::optional<Fallback> fallback;
  // Wall seconds of this process's part of the run, summed over its reports.
  double data_wait_seconds = 0, forward_backward_seconds = 0, optimizer_seconds = 0, checkpoint_seconds = 0;
  double eval_seconds = 0;
  int64_t num_checkpoints = 0;
  std::string last_checkpoint;
};

/// The content of summary.json; docs/metrics.md lists its fields.
nlohmann::ordered_json summary_to_json(const RunSummary& summary);
/// A table of some ten lines: results, best, per-class accuracy, most confused pairs, speed, where the time went.
std::string summary_to_text(const RunSummary& summary);

/// Fills a RunSummary; complete after on_end.
class SummaryCollector final : public Observer {
 public:
  explicit SummaryCollector(std::vector<std::string> class_names) { summary_.class_names = std::move(class_names); }

  void on_start(const StartReport& report) override { summary_.start = report; }
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_warning(const std::string& kind, const std::string& text) override;
  void on_device_fallback(const std::string& requested, const std::string& used, const std::string& reason) override;
  void on_scaling(const ScalingReport& report) override { scaling_ = report; }
  void on_end(const EndReport& report) override;

  [[nodiscard]] const RunSummary& summary() const { return summary_; }

 private:
  void add_warning(const std::string& text);

  RunSummary summary_;
  std::optional<EvalReport> last_eval_, best_eval_;
  std::optional<ScalingReport> scaling_;
};

/// Writes summary.json when the run ends. on_end throws OutputError if it cannot be written.
class SummaryFile final : public Observer {
 public:
  SummaryFile(FileSystem& files, std::filesystem::path file, std::vector<std::string> class_names);

  void on_start(const StartReport& report) override { collector_.on_start(report); }
  void on_step(const StepReport& report) override { collector_.on_step(report); }
  void on_eval(const EvalReport& report) override { collector_.on_eval(report); }
  void on_checkpoint(const CheckpointReport& report) override { collector_.on_checkpoint(report); }
  void on_warning(const std::string& kind, const std::string& text) override { collector_.on_warning(kind, text); }
  void on_device_fallback(const std::string& requested, const std::string& used, const std::string& reason) override {
    collector_.on_device_fallback(requested, used, reason);
  }
  void on_scaling(const ScalingReport& report) override { collector_.on_scaling(report); }
  void on_end(const EndReport& report) override;

 private:
  FileSystem& files_;
  std::filesystem::path path_;
  SummaryCollector collector_;
};

}  // namespace mgtrain
