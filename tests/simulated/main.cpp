// The test program of the simulated devices. With the first argument "mgtrain" it is mgtrain itself, with as many
// devices for --gpus sim:N as MGTEST_SIM_DEVICES says (4 if it does not), and
//   MGTEST_SIM_CAP=BYTES        memory of each device
//   MGTEST_SIM_FAULT=DEVICE:N   the N-th operation of that device fails
#include <cstdlib>
#include <string>

#include "app/program.h"
#include "support/catch_session.h"
#include "support/sim_device.h"

namespace {

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoll(text);
}

int run_mgtrain(int argc, char** argv) {
  const auto devices = static_cast<int>(from_environment("MGTEST_SIM_DEVICES", 4));
  mgtrain::sim::enable(devices);
  for (int i = 0; i < devices; ++i) mgtrain::sim::set_cap(i, from_environment("MGTEST_SIM_CAP", 0));
  if (const char* fault = std::getenv("MGTEST_SIM_FAULT"); fault != nullptr) {
    const std::string text = fault;
    const size_t colon = text.find(':');
    mgtrain::sim::fail_at(std::stoi(text.substr(0, colon)), std::stoll(text.substr(colon + 1)));
  }
  return mgtrain::run_program(argc, argv, [devices] {
    mgtrain::Inventory inventory = mgtrain::probe_inventory();
    inventory.simulated_devices = devices;
    return inventory;
  });
}

}  // namespace

int main(int argc, char** argv) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // one accelerator of LibTorch at a time, and here it is this one
  if (argc > 1 && std::string(argv[1]) == "mgtrain") return run_mgtrain(argc - 1, argv + 1);
  mgtrain::sim::enable(4);
  return mgtrain::test::run_tests(argc, argv);
}
