#include "engine/assertions.h"

#include <limits>

#include "support/catch.h"

using namespace mgtrain;

namespace {

EvalReport report(double top1, double top5, double loss) {
  EvalReport eval;
  eval.top1 = top1;
  eval.top5 = top5;
  eval.loss = loss;
  return eval;
}

}  // namespace

TEST_CASE("assertions hold or fail as they are written", "[engine]") {
  const std::optional<EvalReport> eval = report(0.9, 0.99, 0.3);
  using List = std::vector<std::string>;
  CHECK(failed_assertions({}, eval).empty());
  CHECK(failed_assertions({"val.top1>=0.9", "val.top1<=0.9", "val.top5>0.98", "val.loss<0.31"}, eval).empty());
  CHECK(failed_assertions({"val.top1>0.9", "val.top5<0.5", "val.loss<3e-1", "val.top1>=-1"}, eval) ==
        List{"val.top1>0.9 (0.9)", "val.top5<0.5 (0.99)", "val.loss<3e-1 (0.3)"});
}

TEST_CASE("what was never evaluated, or is NaN, fulfils no assertion", "[engine]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(failed_assertions({"val.top1>=0"}, std::nullopt).size() == 1);
  CHECK(failed_assertions({"val.loss<5", "val.loss>5", "val.loss>=0", "val.loss<=0"}, report(1, 1, nan)).size() == 4);
}
