#include "config/nearest_name.h"

#include <string>
#include <vector>

#include "config/options.h"
#include "support/catch.h"

using mgtrain::nearest_name;

TEST_CASE("the nearest name is found through typos, case, sections and other trainers' words", "[config]") {
  std::vector<std::string> keys;
  for (const mgtrain::Option& option : mgtrain::options()) keys.push_back(option.key);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"train.epochz", "train.epochs"},
      {"train.epohcs", "train.epochs"},
      {"Train.Epochs", "train.epochs"},
      {"train.lr", "optim.lr"},
      {"optimizer.lr", "optim.lr"},
      {"epochs", "train.epochs"},
      {"optim.learning_rate", "optim.lr"},
      {"train.batch_size", "train.batch"},
      {"data.num_workers", "data.workers"},
      {"optim.weight-decay", "optim.weight_decay"},
      {"checkpoint.save_evry", "checkpoint.save_every"},
  };
  for (const auto& [written, wanted] : cases) {
    CAPTURE(written);
    CHECK(nearest_name(written, keys) == wanted);
  }
  CHECK(nearest_name("train.quux", keys).empty());
  CHECK(nearest_name("", keys).empty());
  CHECK(nearest_name(std::string(100000, 'a'), keys).empty());
}

TEST_CASE("the nearest flag is found whatever its dashes", "[config]") {
  const std::vector<std::string> flags = {"--batch", "--micro-batch", "--lr", "--save-every"};
  CHECK(nearest_name("--bacth", flags) == "--batch");
  CHECK(nearest_name("-batch", flags) == "--batch");
  CHECK(nearest_name("--micro_batch", flags) == "--micro-batch");
  CHECK(nearest_name("--batch-size", flags) == "--batch");
  CHECK(nearest_name("--frobnicate", flags).empty());
}
