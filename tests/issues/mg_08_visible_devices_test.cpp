// Known fault 8: UUIDs in CUDA_VISIBLE_DEVICES give no device, or the order of the list is lost.
// pytorch/pytorch#90543. The CUDA runtime applies the variable; selection must take its outcome as it is.
#include "base/error.h"
#include "devices/selection.h"
#include "support/catch.h"
#include "support/fake_inventory.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

/// What CUDA shows of a machine of four GPUs under a variable that chooses GPUs 2 and 0, in this order.
Inventory reordered(const std::string& variable) {
  const Inventory four = fake_inventory(4);
  Inventory machine = four;
  machine.gpus = {four.gpus[2], four.gpus[0]};
  machine.gpus[0].index = 0;
  machine.gpus[1].index = 1;
  machine.cuda_visible_devices = variable;
  return machine;
}

}  // namespace

TEST_CASE("issue 8: indices, UUIDs and short UUIDs in CUDA_VISIBLE_DEVICES give the driver's devices, in its order",
          "[issues]") {
  const Inventory machine = reordered(GENERATE("2,0",
                                               "GPU-cccccccc-0000-1111-2222-333333333333,GPU-aaaaaaaa-0000-1111-"
                                               "2222-333333333333",
                                               "GPU-c,GPU-a"));
  for (const char* gpus : {"auto", "all", "2", "0,1", "GPU-c,GPU-a"}) {
    INFO(gpus);
    const Selection selection = select_devices({.gpus = gpus}, machine);
    REQUIRE(selection.devices.size() == 2);
    CHECK(selection.devices[0].index == 0);
    CHECK(selection.devices[0].uuid == fake_uuid(2));
    CHECK(selection.devices[1].index == 1);
    CHECK(selection.devices[1].uuid == fake_uuid(0));
  }
}

TEST_CASE("issue 8: a GPU that the variable hides is refused, and the message shows the variable", "[issues]") {
  for (const char* gpus : {"2,", "GPU-b"}) {
    INFO(gpus);
    CHECK_THROWS_AS(select_devices({.gpus = gpus}, reordered("2,0")), DeviceError);
    CHECK_THROWS_WITH(select_devices({.gpus = gpus}, reordered("2,0")),
                      Catch::Contains("CUDA_VISIBLE_DEVICES=\"2,0\"") && Catch::Contains(fake_uuid(2)));
  }
}

TEST_CASE("issue 8: an empty variable means no GPU: exit 7 for GPUs that were asked for", "[issues]") {
  Inventory machine = without_visible_gpus(fake_inventory(4));
  machine.cuda_visible_devices = "";
  for (const char* gpus : {"0,1", "2", "all", "GPU-a"}) {
    INFO(gpus);
    CHECK_THROWS_AS(select_devices({.gpus = gpus}, machine), DeviceError);
    CHECK_THROWS_WITH(select_devices({.gpus = gpus}, machine), Catch::Contains("CUDA_VISIBLE_DEVICES=\"\""));
  }
  CHECK(select_devices({.gpus = "cpu:2"}, machine).devices.size() == 2);
}
