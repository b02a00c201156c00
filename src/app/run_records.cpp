#include "app/run_records.h"

#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/version.h"
#include "config/render.h"
#include "devices/report.h"
#include "observe/run_file.h"

namespace mgtrain {
namespace {

using Json = nlohmann::ordered_json;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

Json environment(const Decision& decision, const CommandLine& line) {
  Json json;
  json["mgtrain"] = kVersion;
  json["git_commit"] = kGitCommit;
  json["libtorch"] = TORCH_VERSION;
  json["compiler"] = __VERSION__;
  json["built_with_cuda"] = decision.inventory.built_with_cuda;
  json["host"] = host_name();
  json["process"] = getpid();
  json["command"] = line.arguments;
  json["working_directory"] = std::filesystem::current_path().string();
  json["devices"] = Json::array();
  for (const Device& device : decision.plan.selection.devices) {
    json["devices"].push_back({{"label", device.label()},
                               {"name", device.name},
                               {"uuid", device.uuid},
                               {"pci_bus_id", device.pci_bus_id},
                               {"memory_bytes", device.memory_bytes},
                               {"threads", device.threads}});
  }
  json["inventory"] = inventory_to_json(decision.inventory);
  return json;
}

}  // namespace

void write_run_records(const Decision& decision, const CommandLine& line, const std::filesystem::path& folder,
                       FileSystem& files) {
  replace_file(files, folder / "config.toml", render_toml(decision.config, /*with_origins=*/false));
  replace_file(files, folder / "plan.json", plan_to_json(decision.plan).dump(2) + "\n");
  replace_file(files, folder / "environment.json", environment(decision, line).dump(2) + "\n");
}

}  // namespace mgtrain
