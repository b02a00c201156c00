#include "observe/summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "observe/event_json.h"
#include "observe/number_text.h"
#include "observe/run_file.h"

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kClassesShown = 10;
constexpr size_t kPairsShown = 3;
constexpr size_t kLabelWidth = 12;

std::string class_name(const RunSummary& summary, size_t index) {
  if (index < summary.class_names.size()) return summary.class_names[index];
  return "class " + std::to_string(index);
}

int64_t samples_of_class(const EvalReport& eval, size_t index) {
  if (index >= eval.confusion.size()) return 0;
  const std::vector<int64_t>& row = eval.confusion[index];
  return std::accumulate(row.begin(), row.end(), int64_t{0});
}

struct ConfusedPair {
  size_t truth, predicted;
  int64_t count;
};

// Wrong predictions, the most frequent first; equal counts in class order.
std::vector<ConfusedPair> most_confused(const EvalReport& eval, size_t limit) {
  std::vector<ConfusedPair> pairs;
  for (size_t truth = 0; truth < eval.confusion.size(); ++truth) {
    for (size_t predicted = 0; predicted < eval.confusion[truth].size(); ++predicted) {
      const int64_t count = eval.confusion[truth][predicted];
      if (truth != predicted && count > 0) pairs.push_back({truth, predicted, count});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater{}, &ConfusedPair::count);
  if (pairs.size() > limit) pairs.resize(limit);
  return pairs;
}

Json per_class_json(const RunSummary& summary, const EvalReport& eval) {
  Json classes = Json::array();
  for (size_t i = 0; i < eval.class_accuracy.size(); ++i) {
    classes.push_back({{"class", i},
                       {"name", class_name(summary, i)},
                       {"accuracy", eval.class_accuracy[i]},
                       {"num_samples", samples_of_class(eval, i)}});
  }
  return classes;
}

Json confused_json(const RunSummary& summary, const EvalReport& eval) {
  Json pairs = Json::array();
  for (const ConfusedPair& pair : most_confused(eval, 10)) {
    pairs.push_back({{"true", class_name(summary, pair.truth)},
                     {"predicted", class_name(summary, pair.predicted)},
                     {"count", pair.count}});
  }
  return pairs;
}

void add_line(std::string& text, const std::string& label, const std::string& content) {
  text += padded(label, kLabelWidth) + content + "\n";
}

void add_results(std::string& text, const EndReport& end) {
  if (!end.last_eval) {
    add_line(text, "result", "not evaluated");
    return;
  }
  const EvalReport& last = *end.last_eval;
  add_line(text, "result",
           "top-1 " + fixed_text(last.top1, 4) + "  top-5 " + fixed_text(last.top5, 4) + "  loss " +
               fixed_text(last.loss, 4) + "  (" + std::to_string(last.num_samples) + " images, step " +
               std::to_string(last.step) + ")");
  if (end.best_eval) {
    const EvalReport& best = *end.best_eval;
    add_line(text, "best",
             "top-1 " + fixed_text(best.top1, 4) + "  top-5 " + fixed_text(best.top5, 4) + "  loss " +
                 fixed_text(best.loss, 4) + "  (step " + std::to_string(best.step) + ", epoch " +
                 std::to_string(best.epoch + 1) + ")");
  }
}

// All classes if they are few, else those the model knows worst.
void add_classes(std::string& text, const RunSummary& summary, const EvalReport& eval) {
  std::vector<size_t> order(eval.class_accuracy.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return std::isnan(eval.class_accuracy[i]); });
  const bool all = order.size() <= kClassesShown;
  if (!all) {
    std::ranges::stable_sort(order, std::ranges::less{}, [&](size_t i) { return eval.class_accuracy[i]; });
    order.resize(kClassesShown);
  }
  size_t width = 0;
  for (const size_t i : order) width = std::max(width, class_name(summary, i).size());
  std::string label = all ? "per class" : "worst";
  for (const size_t i : order) {
    add_line(text, label, padded(class_name(summary, i), width + 2) + fixed_text(eval.class_accuracy[i], 4));
    label.clear();
  }
}

void add_confused(std::string& text, const RunSummary& summary, const EvalReport& eval) {
  std::string label = "confused";
  for (const ConfusedPair& pair : most_confused(eval, kPairsShown)) {
    const auto total = static_cast<double>(samples_of_class(eval, pair.truth));
    add_line(text, label,
             class_name(summary, pair.truth) + " taken for " + class_name(summary, pair.predicted) + ": " +
                 std::to_string(pair.count) + " (" + fixed_text(100 * static_cast<double>(pair.count) / total, 1) +
                 " %)");
    label.clear();
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
    json["per_class"] = per_class_json(summary, *end.last_eval);
    json["confusion"] = end.last_eval->confusion;
    json["most_confused"] = confused_json(summary, *end.last_eval);
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
  if (end.last_eval) {
    add_classes(text, summary, *end.last_eval);
    add_confused(text, summary, *end.last_eval);
  }
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
