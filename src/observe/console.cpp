#include "observe/console.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "base/exit_code.h"
#include "observe/event_json.h"
#include "observe/number_text.h"

namespace mgtrain {
namespace {

constexpr size_t kKindWidth = 6;  // "train ", "val   "

// Values of one column have one width, so that columns stay below each other whatever the step.
std::string column(const char* key, std::string value, size_t width) {
  return padded(std::string(key) + "=" + std::move(value), std::char_traits<char>::length(key) + 1 + width) + " ";
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string of_total(int64_t value, int64_t total) {
  return std::to_string(value) + (total > 0 ? "/" + std::to_string(total) : "");
}

}  // namespace

std::string last_line(const EndReport& report, const std::string& run_path) {
  const auto code = static_cast<ExitCode>(report.exit_code);
  const bool done = code == ExitCode::kDone;
  const bool stopped = code == ExitCode::kInterrupted || code == ExitCode::kTerminated;
  const double top1 = report.last_eval ? report.last_eval->top1 : std::numeric_limits<double>::quiet_NaN();
  const std::string results = " step=" + std::to_string(report.step) + " val.top1=" + fixed_text(top1, 4);
  // A run whose assertion failed may well have ended as planned; the failure is what a script must see.
  const std::string reason =
      " reason=" + (code == ExitCode::kAssertionFailed ? "assertion" : value_text(report.reason));

  std::string line = "mgtrain: ";
  if (done) {
    // A time limit and an early stop are done too; they say so after the results.
    line += "done" + results + (report.reason == "done" || report.reason.empty() ? "" : reason);
  } else {
    line += (stopped ? "stopped" : "failed") + reason + results + " exit=" + std::to_string(report.exit_code);
  }
  // The path is the rest of the line, as it is, unless it would break the line.
  const bool one_line = run_path.find_first_of("\n\r") == std::string::npos;
  return line + " run=" + (one_line ? run_path : value_text(run_path));
}

ConsoleObserver::ConsoleObserver(std::ostream& out, std::ostream& err, Log& log, const Clock& clock,
                                 ConsoleOptions options)
    : out_(out),
      log_(log),
      clock_(clock),
      options_(std::move(options)),
      bar_(err, clock, options_.quiet ? ProgressStyle::kNone : options_.progress, options_.terminal_columns),
      collector_(options_.class_names) {
  log_.set_line_hooks([](void* bar) { static_cast<ProgressBar*>(bar)->clear(); },
                      [](void* bar) { static_cast<ProgressBar*>(bar)->redraw(); }, &bar_);
}

ConsoleObserver::~ConsoleObserver() { log_.set_line_hooks(nullptr, nullptr, nullptr); }

void ConsoleObserver::on_start(const StartReport& report) {
  collector_.on_start(report);
  total_steps_ = report.total_steps;
  num_epochs_ = report.epochs;
  std::string line = report.headline;
  if (report.resumed) line += " (resumed at step " + std::to_string(report.start_step) + ")";
  print_result(line, start_event(report, clock_.unix_seconds()));
}

void ConsoleObserver::on_progress(const Progress& progress) { bar_.update(progress, num_epochs_); }

void ConsoleObserver::on_step(const StepReport& report) {
  collector_.on_step(report);
  std::string line = padded("train", kKindWidth) + place(report.step, report.epoch) +
                     column("loss", fixed_text(report.loss, 4), 7) + column("top1", fixed_text(report.top1, 4), 6) +
                     column("lr", short_text(report.learning_rate), 11);
  if (report.grad_norm) line += column("grad_norm", short_text(*report.grad_norm, 4), 9);
  line += column("images/s", fixed_text(report.images_per_second, 0), 0);
  print_result(line, step_event(report, clock_.unix_seconds()));
}

void ConsoleObserver::on_eval(const EvalReport& report) {
  collector_.on_eval(report);
  print_result(
      padded("val", kKindWidth) + place(report.step, report.epoch) + column("loss", fixed_text(report.loss, 4), 7) +
          column("top1", fixed_text(report.top1, 4), 6) + column("top5", fixed_text(report.top5, 4), 6) +
          column("images", std::to_string(report.num_samples), 6) +
          column("seconds", fixed_text(report.seconds, 2), 6) + column("best", report.is_best ? "yes" : "no", 0),
      eval_event(report, clock_.unix_seconds()));
}

void ConsoleObserver::on_checkpoint(const CheckpointReport& report) {
  collector_.on_checkpoint(report);
  log_.info("checkpoint step=" + std::to_string(report.step) + " bytes=" + std::to_string(report.bytes) +
            " seconds=" + fixed_text(report.seconds, 2) + " path=" + report.path);
  if (options_.json && !options_.quiet) print(json_line(checkpoint_event(report, clock_.unix_seconds())));
}

void ConsoleObserver::on_warning(const std::string& kind, const std::string& text) {
  collector_.on_warning(kind, text);
  log_.warning(text);
  if (options_.json && !options_.quiet) print(json_line(warning_event(kind, text, clock_.unix_seconds())));
}

void ConsoleObserver::on_device_fallback(const std::string& requested, const std::string& used,
                                         const std::string& reason) {
  collector_.on_device_fallback(requested, used, reason);
  log_.warning(reason + ": running on " + used + " instead of " + requested);
  if (options_.json && !options_.quiet) {
    print(json_line(device_fallback_event(requested, used, reason, clock_.unix_seconds())));
  }
}

void ConsoleObserver::on_scaling(const ScalingReport& report) {
  collector_.on_scaling(report);
  std::string line = padded("scaling", kKindWidth + 2) + column("devices", std::to_string(report.devices), 0) +
                     column("speedup", fixed_text(report.speedup, 2), 0) +
                     column("step_seconds", short_text(report.step_seconds, 4), 0) +
                     column("one_device_seconds", short_text(report.one_device_seconds, 4), 0);
  print_result(line, scaling_event(report, clock_.unix_seconds()));
}

void ConsoleObserver::on_end(const EndReport& report) {
  bar_.finish();
  collector_.on_end(report);
  if (options_.json) {
    print(json_line(end_event(report, clock_.unix_seconds())));
    return;
  }
  const RunSummary& summary = collector_.summary();
  if (!options_.quiet) print("\n" + summary_to_text(summary) + "\n");
  print(last_line(summary.end, options_.run_path) + "\n");
}

void ConsoleObserver::print_result(const std::string& line, const nlohmann::ordered_json& event) {
  if (options_.quiet) return;
  print(options_.json ? json_line(event) : without_trailing_blanks(line) + "\n");
}

void ConsoleObserver::print(const std::string& text) {
  bar_.without([&] {
    try {
      out_ << text << std::flush;
    } catch (const std::ios_base::failure&) {
      // Nobody reads stdout any more; the run folder has it all.
    }
  });
}

std::string ConsoleObserver::place(int64_t step, int64_t epoch) const {
  const auto width = [](int64_t total) { return total > 0 ? 2 * std::to_string(total).size() + 1 : 0; };
  return column("step", of_total(step, total_steps_), width(total_steps_)) +
         column("epoch", of_total(epoch + 1, num_epochs_), width(num_epochs_));
}

}  // namespace mgtrain
