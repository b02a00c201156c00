// Scalars for TensorBoard: an event file in the run folder. A record is with the operating system when the call
// returns, so a short run, a failed one or a killed process leaves no empty file. Tags: train/loss, train/top1,
// train/lr, grad_norm, throughput/images_per_second, val/loss, val/top1, val/top5.
#pragma once

#include "base/clock.h"
#include "observe/observer.h"
#include "observe/run_file.h"

namespace mgtrain {

/// "events.out.tfevents.<unix time>.<this host>.<this process>.0".
std::string event_file_name(double unix_seconds);

class TensorBoardWriter final : public Observer {
 public:
  /// Starts the new event file `folder`/`name`, or with `keep` goes on in that file cut back to `keep` bytes
  /// (resume). Every method throws OutputError if the file cannot be written.
  TensorBoardWriter(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                    std::optional<uint64_t> keep, const Clock& clock);

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_end(const EndReport& report) override;
  void flush() override { file_.sync(); }

  /// The file's name in the run folder and its bytes so far: what a checkpoint records.
  [[nodiscard]] std::string name() const { return file_.path().filename().string(); }
  [[nodiscard]] uint64_t length() const { return file_.length(); }

 private:
  RunFile file_;
  const Clock& clock_;
};

}  // namespace mgtrain
