#include "observe/event_json.h"

#include <nlohmann/json.hpp>

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

Json event(const char* name, double time, const Json& fields) {
  Json result = {{"schema", kMetricsSchema}, {"event", name}, {"time", time}};
  result.update(fields);
  return result;
}

}  // namespace

Json eval_fields(const EvalReport& report) {
  return {{"step", report.step},       {"epoch", report.epoch},     {"num_samples", report.num_samples},
          {"loss", report.loss},       {"top1", report.top1},       {"top5", report.top5},
          {"seconds", report.seconds}, {"is_best", report.is_best}, {"class_accuracy", report.class_accuracy}};
}

Json scaling_fields(const ScalingReport& report) {
  return {{"devices", report.devices},
          {"step_seconds", report.step_seconds},
          {"one_device_seconds", report.one_device_seconds},
          {"speedup", report.speedup},
          {"advice", report.advice}};
}

Json start_event(const StartReport& report, double time) {
  return event("start", time,
               {{"headline", report.headline},
                {"start_step", report.start_step},
                {"total_steps", report.total_steps},
                {"steps_per_epoch", report.steps_per_epoch},
                {"epochs", report.epochs},
                {"resumed", report.resumed},
                {"strategy", report.strategy},
                {"devices", report.devices},
                {"global_batch", report.global_batch},
                {"seed", report.seed}});
}

Json step_event(const StepReport& report, double time) {
  Json fields = {{"step", report.step}, {"epoch", report.epoch}, {"samples_seen", report.samples_seen},
                 {"loss", report.loss}, {"top1", report.top1},   {"learning_rate", report.learning_rate}};
  if (report.grad_norm) fields["grad_norm"] = *report.grad_norm;
  fields["images_per_second"] = report.images_per_second;
  fields["data_wait_seconds"] = report.data_wait_seconds;
  fields["forward_backward_seconds"] = report.forward_backward_seconds;
  fields["optimizer_seconds"] = report.optimizer_seconds;
  fields["checkpoint_seconds"] = report.checkpoint_seconds;
  return event("step", time, fields);
}

Json eval_event(const EvalReport& report, double time) { return event("eval", time, eval_fields(report)); }

Json checkpoint_event(const CheckpointReport& report, double time) {
  return event("checkpoint", time,
               {{"step", report.step}, {"path", report.path}, {"bytes", report.bytes}, {"seconds", report.seconds}});
}

Json warning_event(const std::string& kind, const std::string& text, double time) {
  return event("warning", time, {{"kind", kind}, {"text", text}});
}

Json device_fallback_event(const std::string& requested, const std::string& used, const std::string& reason,
                           double time) {
  return event("device_fallback", time, {{"requested", requested}, {"used", used}, {"reason", reason}});
}

Json scaling_event(const ScalingReport& report, double time) { return event("scaling", time, scaling_fields(report)); }

Json end_event(const EndReport& report, double time) {
  Json fields = {{"reason", report.reason},
                 {"exit_code", report.exit_code},
                 {"step", report.step},
                 {"epoch", report.epoch},
                 {"samples_seen", report.samples_seen},
                 {"seconds", report.seconds},
                 {"mean_images_per_second", report.mean_images_per_second}};
  if (report.last_eval) fields["last_eval"] = eval_fields(*report.last_eval);
  if (report.best_eval) fields["best_eval"] = eval_fields(*report.best_eval);
  if (report.scaling) fields["scaling"] = scaling_fields(*report.scaling);
  fields["warnings"] = report.warnings;
  fields["failed_asserts"] = report.failed_asserts;
  return event("end", time, fields);
}

std::string json_line(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mgtrain
