#include "observe/metrics_jsonl.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "observe/event_json.h"
#include "observe/json_schema.h"
#include "observe/sample_reports.h"
#include "support/catch.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;

using Json = nlohmann::json;

JsonSchema documented_schema() {
  std::ifstream file(std::string(MGTRAIN_SOURCE_DIR) + "/docs/metrics.schema.json");
  REQUIRE(file);
  return JsonSchema(Json::parse(file));
}

void report_everything(Observer& observer) {
  observer.on_device_fallback("0,1", "cpu:2", "no NVIDIA GPU in this machine");
  observer.on_start(sample_start());
  StepReport step = sample_step(50);
  observer.on_step(step);
  step.grad_norm = 0.75;
  step.loss = std::nan("");
  observer.on_step(step);
  observer.on_scaling(sample_scaling());
  observer.on_eval(sample_eval(157));
  observer.on_checkpoint({.step = 157, .path = "runs/\xff/checkpoints", .bytes = 45000000, .seconds = 0.4});
  observer.on_warning("slow-data", "the loader is slow");
  observer.on_end(sample_end());
  EndReport failed;
  failed.reason = "error: loss became NaN";
  failed.exit_code = 6;
  failed.warnings = {"the loader is slow"};
  failed.failed_asserts = {"val.top1>=0.93"};
  failed.mean_images_per_second = std::nan("");
  observer.on_end(failed);
}

TEST_CASE("every event written fits the documented schema, and every kind of event is written", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.sync_directory("/");
  const HandClock clock;
  MetricsJsonl metrics(files, "run/metrics.jsonl", std::nullopt, clock);
  report_everything(metrics);
  const JsonSchema schema = documented_schema();
  std::set<std::string> kinds;
  for (const std::string& line : lines_of(files.get("run/metrics.jsonl"))) {
    const Json event = Json::parse(line);
    INFO(line);
    CHECK(schema.fault(event) == "");
    kinds.insert(event["event"].get<std::string>());
  }
  CHECK(kinds ==
        std::set<std::string>{"checkpoint", "device_fallback", "end", "eval", "scaling", "start", "step", "warning"});
}

TEST_CASE("the documented schema refuses events that are not as documented", "[observe]") {
  const JsonSchema schema = documented_schema();
  const Json good = Json::parse(json_line(step_event(sample_step(1), 1.7e9)));
  REQUIRE(schema.fault(good) == "");
  for (const auto& [key, unused] : good.items()) {
    Json lacking = good;
    lacking.erase(key);
    INFO("without " << key);
    CHECK(schema.fault(lacking) != "");
  }
  const std::pair<const char*, Json> changes[] = {{"schema", 2},     {"event", "stop"}, {"step", 1.5},
                                                  {"step", -1},      {"top1", 1.5},     {"loss", "0.5"},
                                                  {"time", nullptr}, {"surprise", 1},   {"samples_seen", "1"}};
  for (const auto& [key, value] : changes) {
    Json changed = good;
    changed[key] = value;
    INFO(key << " = " << value);
    CHECK(schema.fault(changed) != "");
  }
}

TEST_CASE("an event carries the report's values exactly, and null for NaN", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.sync_directory("/");
  const HandClock clock(1764500000.25);
  MetricsJsonl metrics(files, "run/metrics.jsonl", std::nullopt, clock);
  StepReport report = sample_step(7);
  report.loss = 0.1 + 0.2;
  report.grad_norm = INFINITY;
  report.top1 = std::nan("");
  metrics.on_step(report);
  metrics.on_start(sample_start());
  const auto lines = lines_of(files.get("run/metrics.jsonl"));
  const Json step = Json::parse(lines.at(0));
  CHECK(step["schema"] == 1);
  CHECK(step["event"] == "step");
  CHECK(step["time"] == 1764500000.25);
  CHECK(step["loss"].get<double>() == 0.1 + 0.2);
  CHECK(step["grad_norm"].is_null());
  CHECK(step["top1"].is_null());
  CHECK(step["step"] == 7);
  CHECK(step["samples_seen"] == 448);
  CHECK(step["forward_backward_seconds"] == 2.5);
  CHECK(lines[0].starts_with(R"({"schema":1,"event":"step","time":)"));
  CHECK(Json::parse(lines.at(1))["seed"].get<uint64_t>() == 18446744073709551615u);
}

TEST_CASE("a line is written before the call returns, and flush takes it to the disk", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.sync_directory("/");
  const HandClock clock;
  MetricsJsonl metrics(files, "run/metrics.jsonl", std::nullopt, clock);
  metrics.on_step(sample_step(1));
  CHECK(files.get("run/metrics.jsonl").ends_with("}\n"));
  CHECK(metrics.length() == files.get("run/metrics.jsonl").size());
  metrics.flush();
  const std::string flushed = files.get("run/metrics.jsonl");
  metrics.on_step(sample_step(2));
  files.restart(MemoryFileSystem::Survives::kSynced);  // the power went
  CHECK(files.get("run/metrics.jsonl") == flushed);
}

TEST_CASE("after a resume each step stands once in metrics.jsonl", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.sync_directory("/");
  const HandClock clock;
  uint64_t length_at_checkpoint = 0;
  {
    MetricsJsonl first(files, "run/metrics.jsonl", std::nullopt, clock);
    for (int64_t step = 1; step <= 5; ++step) {
      first.on_step(sample_step(step));
      if (step == 3) length_at_checkpoint = first.length();
    }
  }
  files.put("run/metrics.jsonl", files.get("run/metrics.jsonl") + R"({"schema":1,"eve)");  // killed while writing
  MetricsJsonl second(files, "run/metrics.jsonl", length_at_checkpoint, clock);
  for (int64_t step = 4; step <= 6; ++step) second.on_step(sample_step(step));
  std::vector<int64_t> steps;
  for (const std::string& line : lines_of(files.get("run/metrics.jsonl"))) steps.push_back(Json::parse(line)["step"]);
  CHECK(steps == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("metrics that cannot be written are an output error", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  files.sync_directory("/");
  const HandClock clock;
  MetricsJsonl metrics(files, "run/metrics.jsonl", std::nullopt, clock);
  files.set_capacity(10);
  CHECK_THROWS_AS(metrics.on_step(sample_step(1)), OutputError);
  CHECK(files.get("run/metrics.jsonl").empty());
}

}  // namespace
}  // namespace mgtrain
