// The commands `mgtrain checkpoint verify` and `inspect` (src/app/checkpoint.cpp).
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/commands.h"
#include "base/error.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

struct Commands {
  test::MemoryFileSystem files;
  HandClock clock;
  Log log{LogLevel::kOff};
  std::ostringstream out;
  CommandLine line;
  CheckpointStore store{files, "/run", 2};

  Commands() {
    for (const int64_t step : {10, 20}) store.commit(step, test::sample_checkpoint(step));
    store.set_best(10);
  }
  ExitCode call(ExitCode (*command)(const CommandLine&, AppContext&), const std::string& path, bool json = false) {
    AppContext context{files, clock, log, out};
    line.items = {path};
    line.json = json;
    out.str("");
    return command(line, context);
  }
  nlohmann::json json() const { return nlohmann::json::parse(out.str()); }
};

TEST_CASE("checkpoint verify says of every checkpoint of a run whether it is valid", "[checkpoint]") {
  Commands commands;
  CHECK(commands.call(run_checkpoint_verify, "/run") == ExitCode::kDone);
  CHECK(commands.out.str() ==
        "/run/checkpoints/step-00000020: valid\n/run/checkpoints/step-00000010: valid\n/run/best: valid\n");

  commands.files.put("/run/checkpoints/step-00000020/run.json", "x");
  CHECK(commands.call(run_checkpoint_verify, "/run") == ExitCode::kCheckpoint);
  CHECK_THAT(commands.out.str(), Contains("step-00000020: NOT VALID: run.json: 1 bytes, manifest says") &&
                                     Contains("step-00000010: valid"));
  CHECK(commands.call(run_checkpoint_verify, "/run", true) == ExitCode::kCheckpoint);
  CHECK(commands.json()["valid"] == false);
  CHECK(commands.json()["checkpoints"].size() == 3);
  CHECK(commands.json()["checkpoints"][0]["valid"] == false);
  CHECK_THAT(commands.json()["checkpoints"][0]["problem"].get<std::string>(), Contains("run.json"));
  CHECK(commands.json()["checkpoints"][2] ==
        nlohmann::json{{"path", "/run/best"}, {"valid", true}, {"problem", nullptr}});
}

TEST_CASE("checkpoint verify takes one checkpoint, and refuses what is none", "[checkpoint]") {
  Commands commands;
  CHECK(commands.call(run_checkpoint_verify, "/run/best") == ExitCode::kDone);
  CHECK(commands.out.str() == "/run/best: valid\n");
  commands.files.make_directories("/empty");
  CHECK_THROWS_WITH(commands.call(run_checkpoint_verify, "/empty"), Contains("holds no checkpoint"));
  CHECK_THROWS_WITH(commands.call(run_checkpoint_verify, "/none"), Contains("does not exist"));
  CHECK_THROWS_AS(commands.call(run_checkpoint_verify, "/run/best/run.json"), CheckpointError);
}

TEST_CASE("checkpoint inspect shows counters and tensors", "[checkpoint]") {
  Commands commands;
  CHECK(commands.call(run_checkpoint_inspect, "/run") == ExitCode::kDone);
  CHECK_THAT(commands.out.str(), Contains("checkpoint: /run/best\n") && Contains("step: 10 of 790\n") &&
                                     Contains("best: 0.30000000000000004 at step 7\n") &&
                                     Contains("classes: 3 (shoe, coat \xc3\xa9, bag)\n") &&
                                     Contains("model.safetensors: 2 tensors, 43 values, ") &&
                                     Contains("  fc.weight  F32 [40]\n"));

  CHECK(commands.call(run_checkpoint_inspect, "/run/checkpoints/step-00000020", true) == ExitCode::kDone);
  const auto json = commands.json();
  CHECK(json["run"]["state"]["step"] == 20);
  CHECK(json["run"]["class_names"][2] == "bag");
  CHECK(json["files"]["model.safetensors"]["tensors"][1] ==
        nlohmann::json{{"name", "fc.weight"}, {"dtype", "F32"}, {"shape", {40}}});

  commands.line.quiet = true;
  commands.call(run_checkpoint_inspect, "/run");
  CHECK_THAT(commands.out.str(), !Contains("fc.weight"));
}

TEST_CASE("checkpoint inspect of a damaged checkpoint is an error", "[checkpoint]") {
  Commands commands;
  commands.files.put("/run/best/model.safetensors", "x");
  CHECK_THROWS_AS(commands.call(run_checkpoint_inspect, "/run"), CheckpointError);
}

}  // namespace
}  // namespace mgtrain
