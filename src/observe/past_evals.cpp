#include "observe/past_evals.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mgtrain {
namespace {

/// NaN and Inf are null in the file.
double number(const nlohmann::json& event, const char* key) {
  const auto value = event.find(key);
  return value != event.end() && value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// 0 where there is none; the file may have been changed since.
int64_t integer(const nlohmann::json& event, const char* key) {
  const auto value = event.find(key);
  return value != event.end() && value->is_number_integer() ? value->get<int64_t>() : 0;
}

EvalReport report_of(const nlohmann::json& event) {
  EvalReport report;
  report.step = integer(event, "step");
  report.epoch = integer(event, "epoch");
  report.num_samples = integer(event, "num_samples");
  report.loss = number(event, "loss");
  report.top1 = number(event, "top1");
  report.top5 = number(event, "top5");
  report.seconds = number(event, "seconds");
  const auto best = event.find("is_best");
  report.is_best = best != event.end() && *best == true;
  if (const auto classes = event.find("class_accuracy"); classes != event.end() && classes->is_array()) {
    for (const nlohmann::json& value : *classes)
      report.class_accuracy.push_back(value.is_number() ? value.get<double>()
                                                        : std::numeric_limits<double>::quiet_NaN());
  }
  return report;
}

}  // namespace

PastEvals past_evals(FileSystem& files, const std::filesystem::path& metrics, uint64_t length) {
  PastEvals past;
  if (!files.is_file(metrics)) return past;
  const std::vector<std::byte> bytes = files.read(metrics, 0, length);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find("\"eval\"") == std::string_view::npos) continue;
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("event") || event["event"] != "eval") continue;
    past.last = report_of(event);
    if (past.last->is_best) past.best = past.last;
  }
  return past;
}

}  // namespace mgtrain
