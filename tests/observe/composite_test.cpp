#include "observe/composite.h"

#include "base/error.h"
#include "observe/sample_reports.h"
#include "support/catch.h"
#include "support/recording_observer.h"

namespace mgtrain {
namespace {

struct FailingObserver final : Observer {
  void on_end(const EndReport&) override { throw OutputError("disk full"); }
};

TEST_CASE("all observers are told everything in order", "[observe]") {
  RecordingObserver first, second;
  CompositeObserver all({&first});
  all.add(second);
  all.on_device_fallback("0,1", "cpu:2", "no GPU");
  all.on_start(sample_start());
  all.on_progress({.step = 1});
  all.on_step(sample_step(1));
  all.on_scaling(sample_scaling());
  all.on_eval(sample_eval(1));
  all.flush();
  all.on_checkpoint({.step = 1});
  all.on_warning("kind", "text");
  all.on_end(sample_end());
  const std::vector<std::string> expected = {"device_fallback", "start",      "step",    "scaling", "eval",
                                             "flush",           "checkpoint", "warning", "end"};
  for (const RecordingObserver* observer : {&first, &second}) {
    CHECK(observer->order == expected);
    CHECK(observer->progress.size() == 1);
    CHECK(observer->warnings.front() == std::pair<std::string, std::string>("kind", "text"));
    CHECK(observer->fallbacks.front().used == "cpu:2");
    CHECK(observer->steps.front().loss == 2.25);
  }
}

TEST_CASE("an observer that fails keeps none of the others from being told", "[observe]") {
  FailingObserver failing;
  RecordingObserver other;
  CompositeObserver all({&failing, &other});
  CHECK_THROWS_AS(all.on_end(sample_end()), OutputError);
  CHECK(other.ends.size() == 1);
}

}  // namespace
}  // namespace mgtrain
