// Known fault 15: "not supported without CUDA" or a silent CPU run on a machine with GPUs. pytorch/pytorch#18837.
#include "base/error.h"
#include "devices/selection.h"
#include "support/catch.h"
#include "support/fake_inventory.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

/// What inventory_none.cpp sees of a machine of `gpus` GPUs.
Inventory seen_without_cuda(int gpus) {
  Inventory machine = without_visible_gpus(fake_inventory(gpus));
  machine.built_with_cuda = false;
  machine.driver_version.reset();
  return machine;
}

}  // namespace

TEST_CASE("issue 15: a CPU-only build on a machine with GPUs refuses at once and never trains on the CPU unasked",
          "[issues]") {
  const Inventory machine = seen_without_cuda(2);
  for (const char* gpus : {"0,1", "2", "all", "auto", "GPU-8a"}) {
    INFO(gpus);
    CHECK_THROWS_AS(select_devices({.gpus = gpus}, machine), DeviceError);
    CHECK_THROWS_WITH(select_devices({.gpus = gpus}, machine),
                      Catch::Contains("built without CUDA") && Catch::Contains("--gpus cpu"));
  }
  CHECK(select_devices({.gpus = "cpu"}, machine).on_cpu());
}

TEST_CASE("issue 15: without NVIDIA hardware the CPU-only build falls back, announced", "[issues]") {
  const Selection selection = select_devices({.gpus = "0,1"}, seen_without_cuda(0));
  CHECK(selection.devices.size() == 2);
  CHECK(selection.fell_back_to_cpu);
  REQUIRE(selection.warnings.size() == 1);
  CHECK_THAT(selection.warnings.front(), Catch::Contains("no NVIDIA GPU in this machine"));
}
