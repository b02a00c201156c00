#include "observe/metrics_jsonl.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "observe/event_json.h"

namespace mgtrain {

MetricsJsonl::MetricsJsonl(FileSystem& files, std::filesystem::path file, std::optional<uint64_t> keep,
                           const Clock& clock)
    : file_(files, std::move(file), keep), clock_(clock) {}

void MetricsJsonl::on_start(const StartReport& report) { write(start_event(report, clock_.unix_seconds())); }
void MetricsJsonl::on_step(const StepReport& report) { write(step_event(report, clock_.unix_seconds())); }
void MetricsJsonl::on_eval(const EvalReport& report) { write(eval_event(report, clock_.unix_seconds())); }

void MetricsJsonl::on_checkpoint(const CheckpointReport& report) {
  write(checkpoint_event(report, clock_.unix_seconds()));
}

void MetricsJsonl::on_warning(const std::string& kind, const std::string& text) {
  write(warning_event(kind, text, clock_.unix_seconds()));
}

void MetricsJsonl::on_device_fallback(const std::string& requested, const std::string& used,
                                      const std::string& reason) {
  write(device_fallback_event(requested, used, reason, clock_.unix_seconds()));
}

void MetricsJsonl::on_scaling(const ScalingReport& report) { write(scaling_event(report, clock_.unix_seconds())); }

void MetricsJsonl::on_end(const EndReport& report) {
  write(end_event(report, clock_.unix_seconds()));
  file_.sync();
}

void MetricsJsonl::write(const nlohmann::ordered_json& event) { file_.write(json_line(event)); }

}  // namespace mgtrain
