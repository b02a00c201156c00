#include "app/run_observers.h"

#include <iostream>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kTrace = "samples.txt";

}  // namespace

RunObservers::RunObservers(const Decision& decision, const std::filesystem::path& folder, const CommandLine& line,
                           AppContext& context)
    : files_(context.files), folder_(folder), cut_back_(decision.place.cut_back), record_(decision.place.record) {
  const OutputConfig& output = decision.config.values().output;
  if (cut_back_) past_ = past_evals(files_, folder_ / kMetrics, kept(kMetrics).value_or(0));
  metrics_ = std::make_unique<MetricsJsonl>(files_, folder_ / kMetrics, kept(kMetrics), context.clock);
  records_.add(*metrics_);
  if (output.tensorboard) {
    const std::string name = event_file(context.clock);
    events_ = std::make_unique<TensorBoardWriter>(files_, folder_, name, kept(name), context.clock);
    records_.add(*events_);
  }
  if (output.trace_samples) trace_ = std::make_unique<SampleTrace>(files_, folder_ / kTrace, kept(kTrace));
  summary_ = std::make_unique<SummaryFile>(files_, folder_ / "summary.json", decision.dataset.class_names);
  records_.add(*summary_);
  console_ = std::make_unique<ConsoleObserver>(context.out, std::cerr, context.log, context.clock,
                                               ConsoleOptions{.run_path = folder_.string(),
                                                              .class_names = decision.dataset.class_names,
                                                              .quiet = line.quiet,
                                                              .json = line.json,
                                                              .progress = progress_style_of_stderr()});
  all_.add(records_);
  all_.add(*console_);
}

std::map<std::string, uint64_t> RunObservers::file_lengths() const {
  std::map<std::string, uint64_t> lengths = {{kMetrics, metrics_->length()}};
  if (events_) lengths[events_->name()] = events_->length();
  if (trace_) {
    trace_->flush();
    lengths[kTrace] = trace_->length();
  }
  return lengths;
}

std::exception_ptr RunObservers::end(EndReport& report) {
  std::exception_ptr failure;
  try {
    records_.on_end(report);
  } catch (const Error& error) {
    failure = std::current_exception();
    if (report.exit_code == 0) {
      report.exit_code = static_cast<int>(error.code());
      report.reason = std::string("error: ") + error.what();
    }
  }
  console_->on_end(report);
  return failure;
}

std::optional<uint64_t> RunObservers::kept(const std::string& name) const {
  if (!cut_back_) return std::nullopt;
  const auto length = record_->file_lengths.find(name);
  if (length == record_->file_lengths.end()) return std::nullopt;  // not written by the part before
  return length->second;
}

std::string RunObservers::event_file(const Clock& clock) const {
  if (cut_back_) {
    for (const auto& [name, length] : record_->file_lengths)
      if (name.starts_with("events.out.tfevents.")) return name;
  }
  return event_file_name(clock.unix_seconds());
}

}  // namespace mgtrain
