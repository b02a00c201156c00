// The run as a person or a script sees it: results on stdout, one line a report with key=value columns and a last
// line that is always `mgtrain: ...`; progress, warnings and checkpoints on stderr. A closed stdout stops nothing.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "observe/observer.h"
#include "observe/progress_bar.h"
#include "observe/summary.h"

namespace mgtrain {

struct ConsoleOptions {
  std::string run_path;                  // of the last line
  std::vector<std::string> class_names;  // for the summary
  bool quiet = false;                    // stdout: the last line only; no progress
  bool json = false;                     // stdout: the events of metrics.jsonl, nothing else
  ProgressStyle progress = ProgressStyle::kNone;
  int terminal_columns = 0;  // 0: asked of stderr
};

/// "mgtrain: done step=785 val.top1=0.9012 run=runs/x"; "mgtrain: stopped reason=SIGTERM step=... exit=143 run=...";
/// "mgtrain: failed reason=... step=... exit=6 run=...". val.top1 is nan if the run was never evaluated. No line end.
std::string last_line(const EndReport& report, const std::string& run_path);

class ConsoleObserver final : public Observer {
 public:
  /// Results go to `out`, progress to `err`, warnings, device fall-backs and checkpoints to `log`: who reports one
  /// need not log it. While this lives, log lines pass around the progress bar. All must outlive this object.
  ConsoleObserver(std::ostream& out, std::ostream& err, Log& log, const Clock& clock, ConsoleOptions options);
  ~ConsoleObserver() override;
  ConsoleObserver(const ConsoleObserver&) = delete;
  ConsoleObserver& operator=(const ConsoleObserver&) = delete;

  void on_start(const StartReport& report) override;
  void on_progress(const Progress& progress) override;
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_warning(const std::string& kind, const std::string& text) override;
  void on_device_fallback(const std::string& requested, const std::string& used, const std::string& reason) override;
  void on_scaling(const ScalingReport& report) override;
  void on_end(const EndReport& report) override;

 private:
  void print(const std::string& text);
  void print_result(const std::string& line, const nlohmann::ordered_json& event);
  [[nodiscard]] std::string place(int64_t step, int64_t epoch) const;

  std::ostream& out_;
  Log& log_;
  const Clock& clock_;
  ConsoleOptions options_;
  ProgressBar bar_;
  SummaryCollector collector_;
  int64_t total_steps_ = 0, num_epochs_ = 0;
};

}  // namespace mgtrain
