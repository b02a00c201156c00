#include "checkpoint/run_record.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

RunRecord there_and_back(const RunRecord& record) { return parse_run_record(render_run_record(record), "run.json"); }

TEST_CASE("run.json gives every field back bit for bit", "[checkpoint]") {
  RunRecord record = test::sample_record(1234);
  CHECK(there_and_back(record) == record);

  record.state.best_value.reset();
  record.state.finished = true;
  record.state.elapsed_seconds = 5e-324;
  record.state.loss_sum_since_report = 0.1 + 0.7;
  record.state.samples_seen = std::numeric_limits<int64_t>::max();
  record.model_json = "";
  record.dataset_json = "{ \"spaced\": 1 }";
  record.file_lengths.clear();
  CHECK(there_and_back(record) == record);

  record.state.loss_sum_since_report = -std::numeric_limits<double>::infinity();
  CHECK(there_and_back(record) == record);
  record.state.loss_sum_since_report = std::nan("");
  CHECK(std::isnan(there_and_back(record).state.loss_sum_since_report));
}

TEST_CASE("run.json shows the model and the data as objects", "[checkpoint]") {
  const auto json = nlohmann::json::parse(render_run_record(test::sample_record(5)));
  CHECK(json["model"]["width"] == 8);
  CHECK(json["dataset"]["channels"] == 1);
  CHECK(json["state"]["step"] == 5);
}

TEST_CASE("a faulty run.json is refused with file and field", "[checkpoint]") {
  auto json = nlohmann::ordered_json::parse(render_run_record(test::sample_record(5)));
  const auto fault = [&](auto change) {
    auto changed = json;
    change(changed);
    try {
      parse_run_record(changed.dump(), "c/run.json");
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(fault([](auto&) {}) == "accepted");
  CHECK(fault([](auto& j) { j.erase("class_names"); }) == "c/run.json: class_names is missing; expected a value");
  CHECK(fault([](auto& j) { j["class_names"] = {1}; }) == "c/run.json: class_names is not a list of texts");
  CHECK(fault([](auto& j) { j["state"]["step"] = "5"; }) == "c/run.json: state: step is not a whole number");
  CHECK(fault([](auto& j) { j["state"]["step"] = 1.5; }) == "c/run.json: state: step is not a whole number");
  CHECK(fault([](auto& j) { j["state"]["step"] = ~uint64_t{0}; }) == "c/run.json: state: step is not a whole number");
  CHECK(fault([](auto& j) { j["state"]["finished"] = 1; }) == "c/run.json: state: finished is not true or false");
  CHECK(fault([](auto& j) { j["file_lengths"]["log.txt"] = -1; }) ==
        "c/run.json: file_lengths: log.txt is not a number of bytes");
  for (const char* path : {"", "..", "../x", "events.out.tfevents.1/../../x", "/etc/passwd", ".hidden", "a\x1b"}) {
    INFO(path);
    CHECK_THAT(fault([&](auto& j) { j["file_lengths"][path] = 1; }), Contains(" is not the name of a file"));
  }
  CHECK_THAT(fault([](auto& j) { j["schema"] = 2; }), Contains("schema 2, this mgtrain reads 1"));
  CHECK_THROWS_WITH(parse_run_record("[]", "r"), Contains("not a JSON object"));
  CHECK_THROWS_WITH(parse_run_record("{\"a\":", "r"), Contains("not a JSON object"));
  CHECK_THROWS_WITH(parse_run_record("{\"a\":" + std::string(1'000'000, '['), "r"), Contains("nested deeper"));
}

TEST_CASE("a text in run.json that is JSON of any depth stays a text", "[checkpoint]") {
  RunRecord record = test::sample_record(5);
  record.model_json = "{\"a\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  CHECK(there_and_back(record) == record);
}

TEST_CASE("a run.json of more keys or values than any run has is refused, not looked through", "[checkpoint]") {
  std::string keys = "{\"schema\":1", values = "{\"class_names\":[0";
  // Each key is compared to all before it: at this number for an hour.
  for (int i = 0; i < 1'000'000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  for (int i = 0; i < 1'000'000; ++i) values += ",0";
  CHECK_THROWS_WITH(parse_run_record(keys + "}", "r"), Contains("r: more than 10000 keys"));
  CHECK_THROWS_WITH(parse_run_record(values + "]}", "r"), Contains("r: more than 1000000 values"));
  CHECK_THROWS_WITH(parse_run_record("\"" + std::string(17 << 20, 'a'), "r"), Contains("bytes are too many"));
}

}  // namespace
}  // namespace mgtrain
