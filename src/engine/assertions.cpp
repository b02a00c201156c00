#include "engine/assertions.h"

#include <charconv>
#include <cmath>
#include <stdexcept>

namespace mgtrain {
namespace {

bool holds(double value, const std::string& comparison, double limit) {
  if (comparison == ">=") return value >= limit;
  if (comparison == "<=") return value <= limit;
  if (comparison == ">") return value > limit;
  return value < limit;
}

std::string shown(double value) {
  if (std::isnan(value)) return "nan";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 6);
  return {buffer, end.ptr};
}

}  // namespace

double metric_of(const EvalReport& report, const std::string& metric) {
  if (metric == "val.top1") return report.top1;
  if (metric == "val.top5") return report.top5;
  if (metric == "val.loss") return report.loss;
  throw std::logic_error("no metric " + metric);
}

std::vector<std::string> failed_assertions(const std::vector<std::string>& asserts,
                                           const std::optional<EvalReport>& last_eval) {
  std::vector<std::string> failed;
  for (const std::string& text : asserts) {
    const size_t comparison = text.find_first_of("<>");
    if (comparison == std::string::npos) throw std::logic_error("unchecked assertion " + text);
    const size_t number = text.find_first_not_of("<>=", comparison);
    double limit = 0;
    if (number == std::string::npos ||
        std::from_chars(text.data() + number, text.data() + text.size(), limit).ec != std::errc()) {
      throw std::logic_error("unchecked assertion " + text);
    }
    if (!last_eval) {
      failed.push_back(text + " (never evaluated)");
      continue;
    }
    const double value = metric_of(*last_eval, text.substr(0, comparison));
    if (!holds(value, text.substr(comparison, number - comparison), limit)) {
      failed.push_back(text + " (" + shown(value) + ")");
    }
  }
  return failed;
}

}  // namespace mgtrain
