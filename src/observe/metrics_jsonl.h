// metrics.jsonl: what happened in a run, one JSON object a line (docs/metrics.md, docs/metrics.schema.json). Each
// line is with the operating system when the call returns, so a killed process loses none.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "observe/observer.h"
#include "observe/run_file.h"

namespace mgtrain {

class MetricsJsonl final : public Observer {
 public:
  /// `keep`: the length to cut an existing file back to (resume); none: a new file. Events carry `clock`'s time.
  /// Every method throws OutputError if the file cannot be written.
  MetricsJsonl(FileSystem& files, std::filesystem::path file, std::optional<uint64_t> keep, const Clock& clock);

  void on_start(const StartReport& report) override;
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_warning(const std::string& kind, const std::string& text) override;
  void on_device_fallback(const std::string& requested, const std::string& used, const std::string& reason) override;
  void on_scaling(const ScalingReport& report) override;
  void on_end(const EndReport& report) override;
  void flush() override { file_.sync(); }

  /// Bytes written so far: what a checkpoint records.
  [[nodiscard]] uint64_t length() const { return file_.length(); }

 private:
  void write(const nlohmann::ordered_json& event);

  RunFile file_;
  const Clock& clock_;
};

}  // namespace mgtrain
