// `--assert METRIC COMPARISON NUMBER`: what a script demands of a run. Torch-free.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/observer.h"

namespace mgtrain {

/// The conditions that do not hold for `last_eval`, each with the value seen: "val.top1>=0.93 (0.9012)". A metric that
/// is NaN, or was never evaluated, fulfils nothing. `asserts` passed config's check.
std::vector<std::string> failed_assertions(const std::vector<std::string>& asserts,
                                           const std::optional<EvalReport>& last_eval);

/// val.top1, val.top5 or val.loss of a report.
double metric_of(const EvalReport& report, const std::string& metric);

}  // namespace mgtrain
