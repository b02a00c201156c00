#include "observe/summary.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "observe/sample_reports.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using test::MemoryFileSystem;

using Json = nlohmann::json;

const std::vector<std::string> kClasses = {"shirt", "coat", "bag"};

void report_run(Observer& observer, const EndReport& end) {
  observer.on_start(sample_start());
  observer.on_device_fallback("0,1", "cpu:2", "no NVIDIA GPU in this machine");
  observer.on_step(sample_step(50));
  observer.on_step(sample_step(100));
  observer.on_eval(sample_eval(157));
  observer.on_checkpoint({.step = 157, .path = "run/checkpoints/step-00000157", .bytes = 1, .seconds = 1});
  observer.on_warning("slow-data", "the loader is slow");
  observer.on_warning("slow-data", "the loader is slow");
  observer.on_end(end);
}

TEST_CASE("summary.json says how the run ended, what came out and where the time went", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  SummaryFile file(files, "run/summary.json", kClasses);
  EndReport end = sample_end();
  end.warnings = {"the loader is slow", "another"};
  end.failed_asserts = {"val.top1>=0.93"};
  report_run(file, end);
  const Json json = Json::parse(files.get("run/summary.json"));
  CHECK(json["reason"] == "done");
  CHECK(json["exit_code"] == 0);
  CHECK(json["step"] == 1570);
  CHECK(json["epoch"] == 9);
  CHECK(json["devices"] == Json({"cpu:0", "cpu:1"}));
  CHECK(json["val"]["top1"] == 0.7);
  CHECK(json["best"]["step"] == 1570);
  CHECK(json["confusion"] == Json({{0, 0, 0}, {0, 3, 2}, {1, 0, 4}}));
  REQUIRE(json["per_class"].size() == 3);
  CHECK(json["per_class"][0]["accuracy"].is_null());
  CHECK(json["per_class"][1] == Json({{"class", 1}, {"name", "coat"}, {"accuracy", 0.6}, {"num_samples", 5}}));
  CHECK(json["most_confused"] == Json::array({{{"true", "coat"}, {"predicted", "bag"}, {"count", 2}},
                                              {{"true", "bag"}, {"predicted", "shirt"}, {"count", 1}}}));
  CHECK(json["images_per_second"] == 1231.5);
  CHECK(json["scaling"]["speedup"] == 1.8);
  CHECK(json["seconds_by_part"] ==
        Json({{"data_wait", 0.5}, {"forward_backward", 5.0}, {"optimizer", 0.25}, {"eval", 0.5}, {"checkpoint", 1.0}}));
  CHECK(json["last_checkpoint"] == "run/checkpoints/step-00000157");
  CHECK(json["device_fallback"]["used"] == "cpu:2");
  CHECK(json["warnings"] == Json({"the loader is slow", "another"}));
  CHECK(json["failed_asserts"] == Json({"val.top1>=0.93"}));
}

TEST_CASE("a run that failed early still has a summary, with what was known", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  SummaryFile file(files, "run/summary.json", kClasses);
  EndReport end;
  end.reason = "error: loss became NaN";
  end.exit_code = 6;
  report_run(file, end);
  const Json json = Json::parse(files.get("run/summary.json"));
  CHECK(json["exit_code"] == 6);
  CHECK(json["val"]["step"] == 157);
  CHECK(json["best"]["step"] == 157);
  CHECK(json["scaling"].is_null());

  SummaryFile never_evaluated(files, "run/other.json", {});
  never_evaluated.on_end(end);
  const Json other = Json::parse(files.get("run/other.json"));
  CHECK(other["val"].is_null());
  CHECK_FALSE(other.contains("confusion"));
}

TEST_CASE("a summary that cannot be written is an output error", "[observe]") {
  MemoryFileSystem files;
  files.make_directories("run");
  SummaryFile file(files, "run/summary.json", kClasses);
  files.set_capacity(10);
  CHECK_THROWS_AS(file.on_end(sample_end()), OutputError);
}

TEST_CASE("the summary for a person names results, classes, confusions, speed and time", "[observe]") {
  SummaryCollector collector(kClasses);
  EndReport end = sample_end();
  end.failed_asserts = {"val.top1>=0.93"};
  report_run(collector, end);
  CHECK(
      summary_to_text(collector.summary()) ==
      "result      top-1 0.7000  top-5 1.0000  loss 0.7500  (10 images, step 1570)\n"
      "best        top-1 0.7000  top-5 1.0000  loss 0.7500  (step 1570, epoch 1)\n"
      "per class   coat  0.6000\n"
      "            bag   0.8000\n"
      "confused    coat taken for bag: 2 (40.0 %)\n"
      "            bag taken for shirt: 1 (20.0 %)\n"
      "speed       1232 images/s, 1m21s; 1.80x one device on 2 (estimated)\n"
      "time        data wait 0.5 s, forward and backward 5.0 s, optimizer 0.2 s, evaluation 0.5 s, checkpoints 1.0 s\n"
      "saved       run/checkpoints/step-00000157\n"
      "warning     the loader is slow\n"
      "not met     val.top1>=0.93\n");
}

TEST_CASE("of many classes the summary for a person names the worst", "[observe]") {
  SummaryCollector collector({});
  EndReport end = sample_end();
  end.last_eval->class_accuracy.assign(100, 0.9);
  end.last_eval->class_accuracy[42] = 0.1;
  end.last_eval->confusion.clear();
  collector.on_end(end);
  const std::string text = summary_to_text(collector.summary());
  CHECK(text.find("worst       class 42  0.1000\n") != std::string::npos);
  CHECK(lines_of(text).size() == 14);  // result, best, ten classes, speed, time
}

}  // namespace
}  // namespace mgtrain
