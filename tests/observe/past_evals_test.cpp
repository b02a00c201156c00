#include "observe/past_evals.h"

#include <cmath>

#include "support/catch.h"
#include "support/memory_file_system.h"

using namespace mgtrain;

namespace {

PastEvals past_of(const std::string& lines) {
  test::MemoryFileSystem files;
  files.put("/run/metrics.jsonl", lines);
  return past_evals(files, "/run/metrics.jsonl", lines.size());
}

}  // namespace

TEST_CASE("the last and the best evaluation are found again", "[observe]") {
  const PastEvals past = past_of(
      "{\"event\":\"eval\",\"step\":10,\"top1\":0.5,\"is_best\":true}\n{\"event\":\"step\",\"step\":11}\n"
      "{\"event\":\"eval\",\"step\":20,\"top1\":0.25,\"loss\":null,\"is_best\":false}\n");
  REQUIRE((past.last && past.best));
  CHECK(past.best->step == 10);
  CHECK(past.last->step == 20);
  CHECK(past.last->top1 == 0.25);
  CHECK(std::isnan(past.last->loss));
}

TEST_CASE("events whose fields are of another type are read without harm", "[observe]") {
  const PastEvals past = past_of(
      "{\"event\":{\"a\":\"eval\"}}\n{\"event\":\"eval\",\"step\":\"ten\",\"epoch\":1e300,\"is_best\":1}\n[\"eval\"]"
      "\n\"eval\"\n"
      "{\"event\":\"eval\n");
  REQUIRE(past.last);
  CHECK(past.last->step == 0);
  CHECK(past.last->epoch == 0);
  CHECK_FALSE(past.best);
}
