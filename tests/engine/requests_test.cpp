#include "engine/requests.h"

#include <stdexcept>

#include "support/catch.h"

namespace mgtrain {

TEST_CASE("what any rank asks for is asked for by all, and nothing else", "[engine]") {
  const std::vector<double> first = to_numbers({.terminate = true, .save = true}), second = to_numbers({.save = true});
  std::vector<double> sums;
  for (size_t i = 0; i < first.size(); ++i) sums.push_back(first[i] + second[i]);
  const Requests both = requests_of(sums);
  CHECK(both.terminate);
  CHECK(both.save);
  CHECK_FALSE(both.interrupt);
  CHECK_FALSE(both.time_limit);
  CHECK_FALSE(both.evaluate);
  CHECK_THROWS_AS(requests_of(std::vector<double>(2)), std::logic_error);
}

}  // namespace mgtrain
