// Plans without a machine or a data set: configs from flags, data sets by number, devices from fake inventories.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/check.h"
#include "plan/run_plan.h"
#include "support/fake_inventory.h"

namespace mgtrain::test {

using Flags = std::vector<std::pair<std::string, std::string>>;

inline CheckedConfig config_of(const Flags& flags) { return check({.flags = flags}, nullptr); }

/// 28 x 28 grey pictures of ten classes, as Fashion-MNIST has.
inline DatasetInfo fake_dataset(int64_t train, int64_t size = 28, int64_t channels = 1) {
  DatasetInfo data;
  data.format = "idx";
  data.path = "fashion";
  data.name = "Fake-MNIST";
  data.channels = channels;
  data.height = data.width = data.input_height = data.input_width = size;
  data.num_classes = 10;
  for (int c = 0; c < 10; ++c) data.class_names.push_back(std::to_string(c));
  data.train.num_samples = train;
  data.val = DatasetPart{.num_samples = 2000};
  return data;
}

/// What `mgtrain plan` with these flags decides on this machine. Devices come from the key devices.gpus.
inline RunPlan fake_plan(const Flags& flags, const DatasetInfo& data, const Inventory& machine = fake_inventory(0)) {
  const CheckedConfig config = config_of(flags);
  return make_plan(config, select_devices(config.values().devices, machine), data);
}

}  // namespace mgtrain::test
