// Known fault 6: code that assumes device 0 and a sorted list. pytorch/pytorch#2610. The selection half.
#include "devices/selection.h"
#include "support/catch.h"
#include "support/fake_inventory.h"

using namespace mgtrain;
using namespace mgtrain::test;

TEST_CASE("issue 6: `--gpus 1,` is the single GPU 1 and nothing else", "[issues]") {
  const Selection selection = select_devices({.gpus = "1,"}, fake_inventory(2));
  REQUIRE(selection.devices.size() == 1);
  CHECK(selection.devices.front().index == 1);
  CHECK(selection.devices.front().uuid == fake_uuid(1));
}

TEST_CASE("issue 6: `--gpus 1,0` keeps its order; the primary is the first in the list", "[issues]") {
  const Selection selection = select_devices({.gpus = "1,0"}, fake_inventory(2));
  REQUIRE(selection.devices.size() == 2);
  CHECK(selection.devices[0].label() == "cuda:1");
  CHECK(selection.devices[1].label() == "cuda:0");
}
