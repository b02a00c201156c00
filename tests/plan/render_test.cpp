#include <sstream>
#include <string>

#include "support/catch.h"
#include "support/fake_plan.h"

using namespace mgtrain;
using namespace mgtrain::test;

TEST_CASE("the headline says what is trained on what", "[plan]") {
  CHECK(headline(fake_plan({{"devices.gpus", "0,1"}}, fake_dataset(10000))) ==
        "ResNet18 (width 64, cifar stem, 11,172,810 parameters) on Fake-MNIST (10,000 images 1x28x28, 10 classes) on "
        "2 CPU replicas");
  CHECK_THAT(headline(fake_plan({{"devices.gpus", "1,0"}}, fake_dataset(10000), fake_inventory(2))),
             Catch::EndsWith("on 2 GPUs (cuda:1, cuda:0)"));
  CHECK_THAT(headline(fake_plan({}, fake_dataset(10000))), Catch::EndsWith("on the CPU (16 threads)"));
}

TEST_CASE("the plan for a person names every decision and device", "[plan]") {
  const Flags flags{{"train.batch", "256"}, {"train.accumulate", "2"}, {"train.epochs", "2"}, {"devices.gpus", "1,0"}};
  const std::string text = render_plan(fake_plan(flags, fake_dataset(10000), fake_inventory(2)), config_of(flags));
  for (const char* part :
       {"per device 2 x 128", "micro-batches 2 x 128", "40 an epoch, 80 in 2 epochs", "last batch is 16",
        "dp: 2 devices in one process", "float32, nhwc", "cuda:1 *", "cuda:0", "GPU-bbbbbbbb-", "0000:2b:00.0", "64",
        "of 80.0 GiB", "MiB each", "sgd, momentum 0.9 (Nesterov)", "0.1, cosine", "BatchNorm", "seed"}) {
    INFO(text);
    CHECK_THAT(text, Catch::Contains(part));
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_FALSE(line.ends_with(' '));
}

TEST_CASE("CPU devices show threads and no empty columns", "[plan]") {
  const Flags flags{{"devices.gpus", "cpu:2"}};
  const std::string text = render_plan(fake_plan(flags, fake_dataset(1000)), config_of(flags));
  CHECK_THAT(text, Catch::Contains("cpu replica 1") && Catch::Contains("threads") && !Catch::Contains("UUID"));
}

TEST_CASE("the plan as JSON is complete", "[plan]") {
  const Flags flags{{"train.batch", "100"}, {"devices.gpus", "GPU-b,0"}, {"data.drop_last", "true"}};
  const auto json = plan_to_json(fake_plan(flags, fake_dataset(1050), fake_inventory(2)));
  CHECK(json["strategy"] == "dp");
  CHECK(json["requested_gpus"] == "GPU-b,0");
  REQUIRE(json["devices"].size() == 2);
  CHECK(json["devices"][0]["uuid"] == fake_uuid(1));
  CHECK(json["devices"][0]["primary"] == true);
  CHECK(json["devices"][1]["pci_bus_id"] == "0000:1b:00.0");
  CHECK(json["devices"][1]["batch"] == 50);
  CHECK(json["devices"][1]["needed_bytes"] > 0);
  CHECK(json["model"]["parameters"] == 11'172'810);
  CHECK(json["batch"]["per_device"] == nlohmann::ordered_json({50, 50}));
  CHECK(json["batch"]["dropped_samples"] == 50);
  CHECK(json["steps"]["total"] == 100);
  CHECK(json["learning_rate"] == 0.1);
  CHECK(json["data"]["val"]["samples"] == 2000);
  CHECK(json["fell_back_to_cpu"] == false);
  CHECK(json["notes"].is_array());
  CHECK(nlohmann::ordered_json::parse(json.dump()) == json);
}
