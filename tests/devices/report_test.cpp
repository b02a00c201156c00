#include "devices/report.h"

#include "support/catch.h"
#include "support/fake_inventory.h"

using namespace mgtrain;
using namespace mgtrain::test;

TEST_CASE("`mgtrain devices` shows what identifies a GPU and why one is unusable", "[devices]") {
  Inventory machine = fake_inventory(2);
  machine.gpus[1].unusable = "no kernels for sm_70 in this LibTorch";
  machine.gpus[1].memory_free = 0;
  machine.cuda_visible_devices = "1,0";
  const std::string text = render_inventory(machine);
  CHECK_THAT(text, Catch::Contains(fake_uuid(0)) && Catch::Contains("0000:1b:00.0") && Catch::Contains("79.0 GiB") &&
                       Catch::Contains("unusable: no kernels for sm_70") && Catch::Contains("unknown") &&
                       Catch::Contains("580.65.06, serves CUDA 13.0") && Catch::Contains("\"1,0\"") &&
                       Catch::Contains("16 cores"));
}

TEST_CASE("`mgtrain devices` without a usable GPU says why", "[devices]") {
  CHECK_THAT(render_inventory(fake_inventory(0)), Catch::Contains("no NVIDIA GPU in this machine"));
  Inventory old = without_visible_gpus(fake_inventory(2));
  old.driver_version = 12080;
  CHECK_THAT(render_inventory(old), Catch::Contains("too old") && Catch::Contains("12.8"));
  Inventory cpu_build = without_visible_gpus(fake_inventory(2));
  cpu_build.built_with_cuda = false;
  CHECK_THAT(render_inventory(cpu_build), Catch::Contains("built without CUDA") && Catch::Contains("2 NVIDIA GPUs"));
}

TEST_CASE("`mgtrain devices --json` has every field", "[devices]") {
  Inventory machine = fake_inventory(3);
  const nlohmann::ordered_json json = inventory_to_json(machine);
  REQUIRE(json["gpus"].size() == 3);
  CHECK(json["gpus"][1]["uuid"] == fake_uuid(1));
  CHECK(json["gpus"][1]["peers"] == nlohmann::ordered_json({0, 2}));
  CHECK(json["gpus"][1]["compute_capability"] == "9.0");
  CHECK(json["gpus"][1]["memory_total_bytes"] == (uint64_t{80} << 30));
  CHECK(json["gpus"][1]["usable"] == true);
  CHECK(json["gpu_fault"].is_null());
  CHECK(json["cuda_visible_devices"].is_null());
  CHECK(json["driver"]["version"] == 13000);
  CHECK(json["cpu"]["cores"] == 16);
  machine.gpus.clear();
  CHECK(inventory_to_json(machine)["gpu_fault"].is_string());
  CHECK(inventory_to_json(fake_inventory(0))["gpu_fault"].is_null());
}
