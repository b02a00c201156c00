// The observers of a run: its files, on from the lengths a checkpoint recorded, and the console.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "app/commands.h"
#include "app/decide.h"
#include "observe/composite.h"
#include "observe/console.h"
#include "observe/metrics_jsonl.h"
#include "observe/past_evals.h"
#include "observe/sample_trace.h"
#include "observe/summary.h"
#include "observe/tensorboard.h"

namespace mgtrain {

class RunObservers {
 public:
  /// Opens the files in `folder`; those of a run that goes on are cut back. Throws OutputError.
  RunObservers(const Decision& decision, const std::filesystem::path& folder, const CommandLine& line,
               AppContext& context);

  Observer& all() { return all_; }
  /// One more; it must outlive this object.
  void add(Observer& observer) { all_.add(observer); }
  /// Nothing unless output.trace_samples.
  SampleTrace* trace() { return trace_.get(); }
  /// Evaluations of the run before this process's part.
  [[nodiscard]] const PastEvals& past() const { return past_; }
  /// Of the files that a resume cuts back; what they hold is on disk.
  [[nodiscard]] std::map<std::string, uint64_t> file_lengths() const;

  /// The records first: where one cannot be written, the run has failed, and the console's last line must say so:
  /// `report` is changed then. Returns that failure.
  std::exception_ptr end(EndReport& report);

 private:
  [[nodiscard]] std::optional<uint64_t> kept(const std::string& name) const;
  [[nodiscard]] std::string event_file(const Clock& clock) const;

  FileSystem& files_;
  std::filesystem::path folder_;
  bool cut_back_;
  std::optional<RunRecord> record_;
  PastEvals past_;
  std::unique_ptr<MetricsJsonl> metrics_;
  std::unique_ptr<TensorBoardWriter> events_;
  std::unique_ptr<SampleTrace> trace_;
  std::unique_ptr<SummaryFile> summary_;
  std::unique_ptr<ConsoleObserver> console_;
  CompositeObserver records_, all_;
};

}  // namespace mgtrain
