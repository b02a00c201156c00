#include "observe/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "observe/evaluation.h"
#include "observe/event_json.h"
#include "observe/number_text.h"
#include "observe/run_file.h"

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

void add_results(std::string& text, const EndReport& end) {
  if (!end.last_eval) {
    add_line(text, "result", "not evaluated");
    return;
  }
  const EvalReport& last = *end.last_eval;
  add_line(text, "result",
           result_text(last) + "  (" + std::to_string(last.num_samples) + " images, step " + std::to_string(last.step) +
               ")");
  if (end.best_eval) {
    const EvalReport& best = *end.best_eval;
    add_line(
        text, "best",
        result_text(best) + "  (step " + std::to_string(best.step) + ", epoch " + std::to_string(best.epoch + 1) + ")");
  }
}

void add_speed(std::string& text, const RunSummary& summary) {
  const EndReport& end = summary.end;
  std::string speed = fixed_text(end.mean_images_per_second, 0) + " images/s, " + duration_text(end.seconds);
  if (end.scaling) {
    speed += "; " + fixed_text(end.scaling->speedup, 2) + "x one device on " + std::to_string(end.scaling->devices) +
             " (estimated)";
  }
  add_line(text, "speed", speed);
  add_line(text, "time",
           "data wait " + fixed_text(summary.data_wait_seconds, 1) + " s, forward and backward " +
               fixed_text(summary.forward_backward_seconds, 1) + " s, optimizer " +
               fixed_text(summary.optimizer_seconds, 1) + " s, evaluation " + fixed_text(summary.eval_seconds, 1) +
               " s, checkpoints " + fixed_text(summary.checkpoint_seconds, 1) + " s");
}

}  // namespace

Json summary_to_json(const RunSummary& summary) {
  const EndReport& end = summary.end;
  Json json = {{"schema", kMetricsSchema},
               {"reason", end.reason},
               {"exit_code", end.exit_code},
               {"headline", summary.start.headline},
               {"strategy", summary.start.strategy},
               {"devices", summary.start.devices},
               {"global_batch", summary.start.global_batch},
               {"seed", summary.start.seed},
               {"resumed", summary.start.resumed},
               {"start_step", summary.start.start_step},
               {"total_steps", summary.start.total_steps},
               {"step", end.step},
               {"epoch", end.epoch},
               {"samples_seen", end.samples_seen},
               {"seconds", end.seconds},
               {"images_per_second", end.mean_images_per_second}};
  json["val"] = end.last_eval ? eval_fields(*end.last_eval) : Json(nullptr);
  json["best"] = end.best_eval ? eval_fields(*end.best_eval) : Json(nullptr);
  if (end.last_eval) {
    json.update(classes_to_json(*end.last_eval, summary.class_names));
  }
  json["scaling"] = end.scaling ? scaling_fields(*end.scaling) : Json(nullptr);
  json["seconds_by_part"] = {{"data_wait", summary.data_wait_seconds},
                             {"forward_backward", summary.forward_backward_seconds},
                             {"optimizer", summary.optimizer_seconds},
                             {"eval", summary.eval_seconds},
                             {"checkpoint", summary.checkpoint_seconds}};
  json["num_checkpoints"] = summary.num_checkpoints;
  json["last_checkpoint"] = summary.last_checkpoint;
  if (summary.fallback) {
    json["device_fallback"] = {{"requested", summary.fallback->requested},
                               {"used", summary.fallback->used},
                               {"reason", summary.fallback->reason}};
  }
  json["warnings"] = summary.warnings;
  json["failed_asserts"] = end.failed_asserts;
  return json;
}

std::string summary_to_text(const RunSummary& summary) {
  const EndReport& end = summary.end;
  std::string text;
  add_results(text, end);
  if (end.last_eval) text += classes_to_text(*end.last_eval, summary.class_names);
  add_speed(text, summary);
  if (!summary.last_checkpoint.empty()) add_line(text, "saved", summary.last_checkpoint);
  for (const std::string& warning : summary.warnings) add_line(text, "warning", warning);
  for (const std::string& failed : end.failed_asserts) add_line(text, "not met", failed);
  return text;
}

void SummaryCollector::on_step(const StepReport& report) {
  summary_.data_wait_seconds += report.data_wait_seconds;
  summary_.forward_backward_seconds += report.forward_backward_seconds;
  summary_.optimizer_seconds += report.optimizer_seconds;
  summary_.checkpoint_seconds += report.checkpoint_seconds;
}

void SummaryCollector::on_eval(const EvalReport& report) {
  summary_.eval_seconds += report.seconds;
  last_eval_ = report;
  if (report.is_best) best_eval_ = report;
}

void SummaryCollector::on_checkpoint(const CheckpointReport& report) {
  ++summary_.num_checkpoints;
  summary_.last_checkpoint = report.path;
}

void SummaryCollector::on_warning(const std::string&, const std::string& text) { add_warning(text); }

void SummaryCollector::on_device_fallback(const std::string& requested, const std::string& used,
                                          const std::string& reason) {
  summary_.fallback = {requested, used, reason};
}

void SummaryCollector::on_end(const EndReport& report) {
  summary_.end = report;
  // An end report written in haste (after an error) may lack what this observer was told before.
  if (!summary_.end.last_eval) summary_.end.last_eval = last_eval_;
  if (!summary_.end.best_eval) summary_.end.best_eval = best_eval_;
  if (!summary_.end.scaling) summary_.end.scaling = scaling_;
  for (const std::string& warning : report.warnings) add_warning(warning);
}

void SummaryCollector::add_warning(const std::string& text) {
  if (std::ranges::find(summary_.warnings, text) == summary_.warnings.end()) summary_.warnings.push_back(text);
}

SummaryFile::SummaryFile(FileSystem& files, std::filesystem::path file, std::vector<std::string> class_names)
    : files_(files), path_(std::move(file)), collector_(std::move(class_names)) {}

void SummaryFile::on_end(const EndReport& report) {
  collector_.on_end(report);
  replace_file(files_, path_,
               summary_to_json(collector_.summary()).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace mgtrain
