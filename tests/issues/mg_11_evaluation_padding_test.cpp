// MG 11: validation accuracy depended on the number of GPUs, as the sampler repeated samples to fill up.
#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

TEST_CASE("MG 11: 10 images on 4 replicas in batches of 3 are 10 images", "[issues]") {
  const Scene scene(48, 10);
  REQUIRE(scene.train("a", {"--epochs", "2"}).exit_code == 0);
  const auto score = [&](const std::string& gpus) {
    const ProgramResult result = scene.mgtrain({"eval", "a", "--gpus", gpus, "--batch", "3", "--json"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  };
  const Json one = score("cpu"), four = score("cpu:4");
  CHECK(four.at("num_samples") == 10);
  CHECK(four.at("confusion") == one.at("confusion"));
  CHECK(four.at("top1") == one.at("top1"));
  CHECK(four.at("top5") == 1);  // of 4 classes
}
