// The commands `mgtrain data info` and `check` (src/app/data.cpp).
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/commands.h"
#include "data/data_files.h"
#include "support/hand_clock.h"
#include "support/memory_file_system.h"

namespace mgtrain::test {
namespace {

using Catch::Matchers::Contains;

struct DataCommands {
  MemoryFileSystem files;
  HandClock clock;
  Log log{LogLevel::kOff};
  std::ostringstream out;
  CommandLine line;

  ExitCode call(ExitCode (*command)(const CommandLine&, AppContext&), const std::string& path, bool json = false) {
    AppContext context{files, clock, log, out};
    line.items.clear();
    if (!path.empty()) line.items = {path};
    line.json = json;
    out.str("");
    return command(line, context);
  }
  nlohmann::json json() const { return nlohmann::json::parse(out.str()); }
};

TEST_CASE("data info says what a data set is", "[data]") {
  const TemporaryFolder folder;
  const auto set = folder.path() / "set";
  write_small_idx(set);
  write_file(set / "dataset.json", R"({"name": "Mine", "classes": ["cat", "horse", "dog"]})");
  DataCommands commands;
  CHECK(commands.call(run_data_info, set.string()) == ExitCode::kDone);
  CHECK(commands.out.str() == "Mine (" + set.string() + ")\n" +
                                  "format       idx\n"
                                  "images       1 x 2 x 3 (channels, height, width)\n"
                                  "training     4 images\n"
                                  "evaluation   2 images\n"
                                  "mean         0.0451\n"
                                  "deviation    0.0271\n"
                                  "fingerprint  4c8ab6cf3292ed28e86bbffd17271fb7\n"
                                  "classes      3\n"
                                  "  cat          1 training        1 evaluation\n"
                                  "  horse        2 training        0 evaluation\n"
                                  "  dog          1 training        1 evaluation\n");
  CHECK(commands.call(run_data_info, set.string(), true) == ExitCode::kDone);
  const nlohmann::json json = commands.json();
  CHECK(json["name"] == "Mine");
  CHECK(json["format"] == "idx");
  CHECK(json["classes"] == nlohmann::json{"cat", "horse", "dog"});
  CHECK(json["train"]["images"] == 4);
  CHECK(json["train"]["per_class"] == nlohmann::json{1, 2, 1});
  CHECK(json["train"]["files"].size() == 2);
  CHECK(json["val"]["per_class"] == nlohmann::json{1, 0, 1});
  CHECK(json["fingerprint"] == "4c8ab6cf3292ed28e86bbffd17271fb7");
  CHECK(json["mean"][0].get<double>() == Approx(11.5 / 255));
}

TEST_CASE("data info takes the options of the data, and the embedded set without a path", "[data]") {
  DataCommands commands;
  commands.line.program = std::filesystem::path(MGTRAIN_SOURCE_DIR) / "build" / "release" / "mgtrain";
  commands.line.config.flags = {{"data.val", "none"}};
  CHECK(commands.call(run_data_info, "", true) == ExitCode::kDone);
  CHECK(commands.json()["name"] == "Fashion-MNIST subset");
  CHECK(commands.json()["val"].is_null());
  CHECK(commands.call(run_data_info, "synthetic:3x8x8x7@70+14", true) == ExitCode::kDone);
  CHECK(commands.json()["num_classes"] == 7);
  CHECK(commands.json()["train"]["files"].empty());
}

TEST_CASE("data info refuses what is no data set", "[data]") {
  DataCommands commands;
  CHECK_THROWS_AS(commands.call(run_data_info, "/no/such/folder"), DataError);
  CHECK_THROWS_AS(commands.call(run_data_info, "synthetic:9"), ConfigError);
}

TEST_CASE("data check finds no fault in whole sets", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  DataCommands commands;
  commands.line.program = std::filesystem::path(MGTRAIN_SOURCE_DIR) / "build" / "release" / "mgtrain";
  for (const std::string& path : {folder.path().string(), std::string("synthetic:1x8x8"), std::string()}) {
    CAPTURE(path);
    CHECK(commands.call(run_data_check, path) == ExitCode::kDone);
    CHECK_THAT(commands.out.str(), Catch::Matchers::EndsWith("no fault\n"));
  }
  commands.line.quiet = true;
  CHECK(commands.call(run_data_check, folder.path().string()) == ExitCode::kDone);
  CHECK(commands.out.str().empty());
}

TEST_CASE("data check lists every fault at once", "[data]") {
  const TemporaryFolder folder;
  write_small_idx(folder.path());
  write_file(folder.path() / "train-images-idx3-ubyte", idx_bytes({4, 2, 3}, ramp(23)));
  write_file(folder.path() / "train-labels-idx1-ubyte", "");
  write_file(folder.path() / "t10k-images-idx3-ubyte", gzip(idx_bytes({2, 2, 3}, ramp(12))).substr(0, 20));
  write_file(folder.path() / "dataset.json", "{");
  DataCommands commands;
  CHECK(commands.call(run_data_check, folder.path().string(), true) == ExitCode::kData);
  const nlohmann::json json = commands.json();
  CAPTURE(json.dump(1));
  CHECK(json["count"] == 4);
  const std::string all = json["faults"].dump();
  CHECK_THAT(all, Contains("39 bytes; its header (4 images of 2 x 3) makes 40") && Contains("is empty (0 bytes)") &&
                      Contains("the gzip data end too early") && Contains("dataset.json: expected"));
  CHECK(commands.call(run_data_check, folder.path().string()) == ExitCode::kData);
  CHECK_THAT(commands.out.str(), Catch::Matchers::EndsWith("\n4 faults\n"));
}

TEST_CASE("data check names every record with a label out of range, and each fault of each file once", "[data]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "data_batch_1.bin",
             cifar_record({10}, 0, 0, 0) + cifar_record({3}, 0, 0, 0) + cifar_record({255}, 0, 0, 0));
  write_file(folder.path() / "data_batch_2.bin", "too short");
  write_file(folder.path() / "test_batch.bin", "");
  DataCommands commands;
  CHECK(commands.call(run_data_check, folder.path().string()) == ExitCode::kData);
  CHECK_THAT(commands.out.str(), Contains("record 0 has the label 10") && Contains("record 2 has the label 255") &&
                                     Contains("data_batch_2.bin: 9 bytes") && Contains("test_batch.bin: is empty") &&
                                     Catch::Matchers::EndsWith("\n4 faults\n"));
}

TEST_CASE("data check remarks on images of one value, and looks at the set that --val names", "[data]") {
  const TemporaryFolder folder;
  const auto set = folder.path() / "set", other = folder.path() / "other";
  write_small_idx(set);
  write_small_idx(other);
  write_file(set / "train-images-idx3-ubyte", idx_bytes({4, 2, 3}, ramp(12) + std::string(6, 'x') + ramp(6)));
  DataCommands commands;
  CHECK(commands.call(run_data_check, set.string()) == ExitCode::kDone);
  CHECK_THAT(commands.out.str(), Contains("remark: ") && Contains("1 image of one value only, the first is number 2"));
  write_file(other / "t10k-labels-idx1-ubyte", idx_bytes({9}, "\1\1"));
  commands.line.config.flags = {{"data.val", other.string()}};
  CHECK(commands.call(run_data_check, set.string()) == ExitCode::kData);
  CHECK_THAT(commands.out.str(), Contains("9 labels and 2 follow") && Contains("\n1 fault\n"));
}

}  // namespace
}  // namespace mgtrain::test
