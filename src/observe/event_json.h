// Reports as the JSON objects of metrics.jsonl and of --json. docs/metrics.md and docs/metrics.schema.json describe
// them; a test holds both to what these functions give. Keys keep their order. Pure functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "observe/observer.h"

namespace mgtrain {

/// The value of "schema" in every event; raised when a reader of the old form would go wrong.
inline constexpr int kMetricsSchema = 1;

/// `time`: seconds since 1970-01-01 UTC. What is absent in a report has no key; NaN and Inf become null when written.
nlohmann::ordered_json start_event(const StartReport& report, double time);
nlohmann::ordered_json step_event(const StepReport& report, double time);
/// Without the confusion matrix, which summary.json holds.
nlohmann::ordered_json eval_event(const EvalReport& report, double time);
nlohmann::ordered_json checkpoint_event(const CheckpointReport& report, double time);
nlohmann::ordered_json warning_event(const std::string& kind, const std::string& text, double time);
nlohmann::ordered_json device_fallback_event(const std::string& requested, const std::string& used,
                                             const std::string& reason, double time);
nlohmann::ordered_json scaling_event(const ScalingReport& report, double time);
nlohmann::ordered_json end_event(const EndReport& report, double time);

/// The fields of a report without the envelope (schema, event, time).
nlohmann::ordered_json eval_fields(const EvalReport& report);
nlohmann::ordered_json scaling_fields(const ScalingReport& report);

/// One line with its end. Bytes that are not UTF-8 (in paths) become U+FFFD.
std::string json_line(const nlohmann::ordered_json& value);

}  // namespace mgtrain
