#include "devices/selection.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "support/fake_inventory.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

Selection select(const std::string& gpus, const Inventory& machine, const std::string& missing = "auto",
                 const std::string& primary = "") {
  return select_devices({.gpus = gpus, .primary = primary, .missing_gpus = missing}, machine);
}

std::vector<int> indices(const Selection& selection) {
  std::vector<int> found;
  for (const Device& device : selection.devices) {
    REQUIRE(device.kind == DeviceKind::kCuda);
    found.push_back(device.index);
  }
  return found;
}

std::vector<int> threads(const Selection& selection) {
  std::vector<int> found;
  for (const Device& device : selection.devices) {
    REQUIRE(device.kind == DeviceKind::kCpu);
    found.push_back(device.threads);
  }
  return found;
}

/// The message of the DeviceError (exit 7) that must come.
std::string refusal(const std::string& gpus, const Inventory& machine, const std::string& missing = "auto") {
  try {
    select(gpus, machine, missing);
  } catch (const DeviceError& error) {
    CHECK(error.code() == ExitCode::kDevice);
    return error.what();
  }
  FAIL("--gpus " << gpus << " was not refused");
  return {};
}

using Indices = std::vector<int>;

}  // namespace

TEST_CASE("auto takes every GPU of a healthy machine of 1 to 8", "[devices]") {
  const int count = GENERATE(range(1, 9));
  const Selection selection = select("auto", fake_inventory(count));
  CHECK(static_cast<int>(selection.devices.size()) == count);
  CHECK(selection.devices.back().index == count - 1);
  CHECK(selection.devices.back().uuid == fake_uuid(count - 1));
  CHECK(selection.devices.back().memory_bytes == uint64_t{80} << 30);
  CHECK(selection.warnings.empty());
  CHECK_FALSE(selection.fell_back_to_cpu);
}

TEST_CASE("auto without NVIDIA hardware is the CPU with all cores, said in one note", "[devices]") {
  const Selection selection = select("auto", fake_inventory(0), GENERATE("auto", "error", "skip"));
  CHECK(threads(selection) == Indices{16});
  CHECK(selection.devices.front().label() == "cpu");
  REQUIRE(selection.notes.size() == 1);
  CHECK(selection.notes.front().find("no NVIDIA GPU in this machine") != std::string::npos);
  CHECK(selection.warnings.empty());
  CHECK_FALSE(selection.fell_back_to_cpu);
}

TEST_CASE("auto takes the CPU when CUDA_VISIBLE_DEVICES hides the GPUs on purpose", "[devices]") {
  Inventory machine = without_visible_gpus(fake_inventory(2));
  machine.cuda_visible_devices = GENERATE("", " ", "-1");
  const Selection selection = select("auto", machine);
  CHECK(selection.on_cpu());
  REQUIRE(selection.notes.size() == 1);
  CHECK(selection.notes.front().find("CUDA_VISIBLE_DEVICES") != std::string::npos);
}

TEST_CASE("auto refuses GPUs that are there but cannot be used, and names the way out", "[devices]") {
  Inventory old_driver = without_visible_gpus(fake_inventory(2));
  old_driver.driver_version = 12040;
  CHECK(refusal("auto", old_driver) ==
        "the NVIDIA driver is too old: it serves CUDA 12.4, this build needs CUDA 13.0, a driver of the 580 series or "
        "newer; --gpus cpu runs on the CPU");

  Inventory no_driver = without_visible_gpus(fake_inventory(1));
  no_driver.driver_version.reset();
  CHECK_THAT(refusal("auto", no_driver), Catch::Contains("no NVIDIA driver") && Catch::Contains("--gpus cpu"));

  Inventory broken = without_visible_gpus(fake_inventory(1));
  broken.initialization_error = "unknown error";
  CHECK_THAT(refusal("auto", broken), Catch::Contains("CUDA could not start: unknown error"));

  CHECK_THAT(refusal("auto", without_visible_gpus(fake_inventory(1))), Catch::Contains("/dev/nvidia"));

  Inventory wrong_variable = without_visible_gpus(fake_inventory(2));
  wrong_variable.cuda_visible_devices = "7";
  CHECK_THAT(refusal("auto", wrong_variable), Catch::Contains("CUDA_VISIBLE_DEVICES=\"7\""));

  Inventory volta = fake_inventory(1);
  volta.gpus[0].unusable = "no kernels for sm_70 in this LibTorch";
  CHECK_THAT(refusal("auto", volta), Catch::Contains("no kernels for sm_70") && Catch::Contains("--gpus cpu"));
}

TEST_CASE("auto leaves out one unusable GPU among good ones, with a warning", "[devices]") {
  Inventory machine = fake_inventory(3);
  machine.gpus[1].unusable = "no kernels for sm_70 in this LibTorch";
  const Selection selection = select("auto", machine);
  CHECK(indices(selection) == Indices{0, 2});
  REQUIRE(selection.warnings.size() == 1);
  CHECK_THAT(selection.warnings.front(), Catch::Contains("GPU 1") && Catch::Contains("sm_70"));
}

TEST_CASE("a count takes the first visible GPUs and explains itself on a larger machine", "[devices]") {
  const Selection two = select("2", fake_inventory(4));
  CHECK(indices(two) == Indices{0, 1});
  CHECK(two.notes == std::vector<std::string>{"2 is a count; GPU 2 is `2,`"});
  const Selection one = select("1", fake_inventory(2));
  CHECK(indices(one) == Indices{0});
  CHECK(one.notes == std::vector<std::string>{"1 is a count; GPU 1 is `1,`"});
  CHECK(select("2", fake_inventory(2)).notes.empty());
}

TEST_CASE("lists keep their order, and the first is the primary", "[devices]") {
  CHECK(indices(select("1,0", fake_inventory(2))) == Indices{1, 0});
  CHECK(indices(select("3,", fake_inventory(4))) == Indices{3});
  CHECK(indices(select("0-3", fake_inventory(8))) == Indices{0, 1, 2, 3});
  CHECK(indices(select("7,2-3,0", fake_inventory(8))) == Indices{7, 2, 3, 0});
  CHECK(indices(select("all", fake_inventory(3))) == Indices{0, 1, 2});
}

TEST_CASE("UUIDs and unique prefixes name GPUs, in any letter case", "[devices]") {
  const Inventory machine = fake_inventory(4);
  CHECK(indices(select(fake_uuid(2), machine)) == Indices{2});
  CHECK(indices(select("GPU-d,GPU-a", machine)) == Indices{3, 0});
  CHECK(indices(select("gpu-BBBB,0", machine)) == Indices{1, 0});
  CHECK_THROWS_AS(select("GPU-", machine), ConfigError);
  CHECK_THROWS_WITH(select("GPU-", machine), Catch::Contains("fits") && Catch::Contains("write more of it"));
  CHECK_THROWS_WITH(select("1,GPU-b", machine), Catch::Contains("a second time"));
  CHECK_THROWS_AS(select("1,GPU-b", machine), ConfigError);
  CHECK_THAT(refusal("GPU-f", machine), Catch::Contains("no visible GPU is GPU-f"));
}

TEST_CASE("--primary moves one of the list to the front", "[devices]") {
  const Inventory machine = fake_inventory(4);
  CHECK(indices(select("0-3", machine, "auto", "2")) == Indices{2, 0, 1, 3});
  CHECK(indices(select("0,1", machine, "auto", "0")) == Indices{0, 1});
  CHECK(indices(select("all", machine, "auto", "GPU-d")) == Indices{3, 0, 1, 2});
  CHECK(indices(select("auto", machine, "auto", "1,")) == Indices{1, 0, 2, 3});
  CHECK_THROWS_AS(select("0,1", machine, "auto", "2"), ConfigError);
  CHECK_THROWS_WITH(select("0,1", machine, "auto", "2"), Catch::Contains("--primary 2 is none of --gpus 0,1"));
  CHECK_THROWS_AS(select("all", machine, "auto", "GPU-"), ConfigError);
  CHECK_THROWS_AS(select("cpu:2", machine, "auto", "2"), ConfigError);
  CHECK(select("cpu:3", machine, "auto", "1").devices.front().label() == "cpu replica 1");
}

TEST_CASE("GPUs asked for on a machine without any become as many CPU replicas, with one warning", "[devices]") {
  struct Case {
    const char* gpus;
    size_t replicas;
  };
  const Case asked = GENERATE(Case{"0,1", 2}, Case{"1", 1}, Case{"3,", 1}, Case{"0-3", 4}, Case{"2", 2},
                              Case{"GPU-8a1f,GPU-77", 2}, Case{"8-11", 4});
  INFO(asked.gpus);
  const Selection selection = select(asked.gpus, fake_inventory(0));
  CHECK(selection.devices.size() == asked.replicas);
  CHECK(selection.on_cpu());
  CHECK(selection.fell_back_to_cpu);
  REQUIRE(selection.warnings.size() == 1);
  CHECK_THAT(selection.warnings.front(), Catch::StartsWith("no NVIDIA GPU in this machine"));
  CHECK_THAT(refusal(asked.gpus, fake_inventory(0), "error"), Catch::Contains("no NVIDIA GPU in this machine"));
  const Selection skipped = select(asked.gpus, fake_inventory(0), "skip");
  CHECK(skipped.devices.size() == 1);  // the book's get_gpus: no GPU gives the CPU
  CHECK(skipped.on_cpu());
  CHECK(skipped.warnings.size() == 1);
}

TEST_CASE("the fall-back keeps the primary: the replica that stands for it comes first", "[devices]") {
  CHECK(select("3,4", fake_inventory(0), "auto", "4").devices.front().label() == "cpu replica 1");
  CHECK(select("GPU-8a,GPU-77", fake_inventory(0), "auto", "GPU-77aa").devices.front().index == 1);
  CHECK(select("2", fake_inventory(0), "auto", "1").devices.front().index == 1);
  CHECK_THROWS_AS(select("3,4", fake_inventory(0), "auto", "0"), ConfigError);
  CHECK(select("auto", fake_inventory(0), "auto", "0").devices.size() == 1);
}

TEST_CASE("all without a GPU is refused, or the CPU with skip", "[devices]") {
  refusal("all", fake_inventory(0));
  refusal("all", without_visible_gpus(fake_inventory(2)));
  CHECK(select("all", fake_inventory(0), "skip").on_cpu());
}

TEST_CASE("an index that is not there: refused, or skipped where asked", "[devices]") {
  const Inventory machine = fake_inventory(2);
  const std::string message = refusal("0,5", machine, GENERATE("auto", "error"));
  CHECK_THAT(message, Catch::Contains("there is no GPU 5") && Catch::Contains("Visible: GPU 0") &&
                          Catch::Contains(fake_uuid(1)));
  CHECK_THAT(refusal("3", machine), Catch::Contains("there is no GPU 2"));

  const Selection list = select("5,1", machine, "skip");
  CHECK(indices(list) == Indices{1});
  CHECK(list.warnings.size() == 1);
  CHECK(indices(select("4", machine, "skip")) == Indices{0, 1});
  CHECK(select("5,", machine, "skip").fell_back_to_cpu);
  CHECK(indices(select("5,1,0", machine, "skip", "5")) == Indices{1, 0});
}

TEST_CASE("an unusable GPU that was asked for is refused by reason; others are not affected", "[devices]") {
  Inventory machine = fake_inventory(3);
  machine.gpus[1].unusable = "compute mode is prohibited";
  for (const char* gpus : {"1,", "0,1", "2", "all", "0-2"}) {
    INFO(gpus);
    CHECK_THAT(refusal(gpus, machine), Catch::Contains("GPU 1") && Catch::Contains("compute mode is prohibited"));
  }
  CHECK(indices(select("0,2", machine)) == Indices{0, 2});
  CHECK(indices(select("all", machine, "skip")) == Indices{0, 2});
}

TEST_CASE("cpu is all cores; replicas share them and get at least one each", "[devices]") {
  Inventory machine = fake_inventory(2);
  CHECK(threads(select("cpu", machine)) == Indices{16});
  CHECK(threads(select("cpu:1", machine)) == Indices{16});
  CHECK(select("cpu:1", machine).devices.front().label() == "cpu");
  CHECK(threads(select("cpu:3", machine)) == Indices{6, 5, 5});
  machine.cpu_cores = 2;
  const Selection crowded = select("cpu:4", machine);
  CHECK(threads(crowded) == Indices{1, 1, 1, 1});
  CHECK(crowded.warnings.size() == 1);
  CHECK(crowded.devices[2].label() == "cpu replica 2");
  CHECK_FALSE(crowded.fell_back_to_cpu);
}

TEST_CASE("words are checked before the machine is", "[devices]") {
  CHECK_THROWS_AS(select("0,x", fake_inventory(0)), ConfigError);
  CHECK_THROWS_AS(select("0", fake_inventory(0)), ConfigError);
  CHECK_THROWS_AS(select("0,0", fake_inventory(0)), ConfigError);
  Inventory broken = without_visible_gpus(fake_inventory(1));
  broken.initialization_error = "unknown error";
  CHECK_THROWS_AS(select("-1", broken), ConfigError);
}

TEST_CASE("the same GPU twice is allowed only by the tests' switch", "[devices]") {
  DevicesConfig config{.gpus = "0,0", .allow_duplicates = true};
  CHECK(indices(select_devices(config, fake_inventory(1))) == Indices{0, 0});
  config.allow_duplicates = false;
  CHECK_THROWS_AS(select_devices(config, fake_inventory(1)), ConfigError);
}

TEST_CASE("sim:N are the simulated devices of a test program, and no words elsewhere", "[devices]") {
  Inventory machine = fake_inventory(2);
  CHECK_THROWS_WITH(select("sim:2", machine), Catch::Contains("\"sim:2\" is not a device"));
  machine.simulated_devices = 4;
  const Selection selection = select("sim:3", machine, "auto", "1");
  REQUIRE(selection.devices.size() == 3);
  CHECK(selection.devices[0].label() == "sim:1");
  CHECK(selection.devices[1].label() == "sim:0");
  CHECK(selection.devices[2].label() == "sim:2");
  CHECK_FALSE(selection.on_cpu());
  CHECK(refusal("sim:5", machine) == "--gpus sim:5: there are 4 simulated devices");
  CHECK_THROWS_AS(select("sim:2", machine, "auto", "2"), ConfigError);
}
