// MG 13: evaluation over ranks, with synchronised statistics above all, hung where only one of them evaluated, or gave
// another number.
#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

TEST_CASE("MG 13: ranks evaluate what one device does, with fewer samples than ranks too", "[issues]") {
  const uint32_t num_val = GENERATE(3u, 42u);
  const bool sync = GENERATE(false, true);
  CAPTURE(num_val, sync);
  const Scene scene(48, num_val);
  std::vector<std::string> flags = {"--strategy", "ddp", "--gpus", "cpu:4", "--epochs", "2"};
  if (sync) flags.emplace_back("--sync-bn");
  const ProgramResult result = scene.train("a", flags);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json ranks = events(scene.run("a"), "eval").back();
  const ProgramResult one = scene.mgtrain({"eval", "a", "--checkpoint", "last", "--gpus", "cpu", "--json"});
  REQUIRE(one.exit_code == 0);
  const Json alone = Json::parse(one.out);
  CHECK(ranks.at("num_samples") == num_val);
  CHECK(ranks.at("top1") == alone.at("top1"));
  CHECK(ranks.at("loss").get<double>() == Approx(alone.at("loss").get<double>()).epsilon(1e-6));
}
