// MG 10: ranks with different numbers of batches waited for each other for ever.
#include <set>
#include <sstream>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

TEST_CASE("MG 10: 101 samples in batches of 10 on 2 ranks end, each sample seen once an epoch", "[issues]") {
  const Scene scene(101, 12);
  // The last batch is one image: one rank has it, the other none. 16 x 16 images: no norm over one value.
  const ProgramResult result =
      scene.train("a", {"--strategy", "ddp", "--gpus", "cpu:2", "--batch", "10", "--epochs", "2", "--trace-samples"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(events(scene.run("a"), "step").size() == 22);
  std::istringstream trace(text_of(scene.run("a") / "samples.txt"));
  std::multiset<int64_t> seen;
  int64_t step = 0, epoch = 0;
  for (std::string line; std::getline(trace, line);) {
    std::istringstream words(line);
    words >> step >> epoch;
    for (int64_t sample; words >> sample;) seen.insert(sample);
  }
  CHECK(seen.size() == 202);
  for (int64_t sample = 0; sample < 101; ++sample) CHECK(seen.count(sample) == 2);
}
