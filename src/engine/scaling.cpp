#include "engine/scaling.h"

#include <algorithm>
#include <numeric>

namespace mgtrain {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void ScalingEstimate::add(double forward_backward, double optimizer, std::span<const double> replica_forward) {
  if (devices_ < 2 || static_cast<int64_t>(replica_forward.size()) != devices_) return;
  if (++steps_ <= kWarmUpSteps || steps_ > kWarmUpSteps + kMeasuredSteps) return;
  const double forwards = std::accumulate(replica_forward.begin(), replica_forward.end(), 0.0);
  step_seconds_.push_back(forward_backward + optimizer);
  one_device_seconds_.push_back(3 * forwards + optimizer);
}

std::optional<ScalingReport> ScalingEstimate::report() const {
  if (steps_ < kWarmUpSteps + kMeasuredSteps) return std::nullopt;
  ScalingReport report;
  report.devices = devices_;
  report.step_seconds = median(step_seconds_);
  report.one_device_seconds = median(one_device_seconds_);
  report.speedup = report.step_seconds > 0 ? report.one_device_seconds / report.step_seconds : 0;
  if (report.speedup < 1) {
    report.advice = "these " + std::to_string(devices_) +
                    " devices are slower than one of them: a larger --batch gives each more to do at once; fewer "
                    "devices, or one, may be faster";
  }
  return report;
}

}  // namespace mgtrain
