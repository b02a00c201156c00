#include "comm/torchrun_threads.h"

#include <cstdint>
#include <fstream>
#include <string_view>

#include "comm/launch_variables.h"

namespace mgtrain {
namespace {

/// What a process was started with; what it set itself later does not show here.
std::optional<Environment> first_environment(const std::string& folder) {
  std::ifstream file(folder + "/environ", std::ios::binary);
  if (!file) return std::nullopt;
  Environment environment;
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (const size_t equals = entry.find('='); equals != entry.npos) {
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return environment;
}

std::optional<int64_t> parent_of(const std::string& folder) {
  constexpr std::string_view kKey = "PPid:\t";
  std::ifstream file(folder + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) return read_integer(std::string_view(line).substr(kKey.size()));
  }
  return std::nullopt;
}

}  // namespace

bool threads_set_by_torchrun(const Environment& environment, const std::optional<Environment>& launcher) {
  const auto is = [&](std::string_view name, std::string_view value) {
    const auto found = environment.find(name);
    return found != environment.end() && found->second == value;
  };
  if (!environment.contains("TORCHELASTIC_RUN_ID") || !is("OMP_NUM_THREADS", "1")) return false;
  if (is("LOCAL_WORLD_SIZE", "1")) return false;  // torchrun leaves a single process alone
  return !launcher || !launcher->contains("OMP_NUM_THREADS");
}

std::optional<Environment> environment_of_launcher(const std::string& proc) {
  for (auto process = parent_of(proc + "/self"); process && *process > 0;) {
    const std::string folder = proc + "/" + std::to_string(*process);
    const auto environment = first_environment(folder);
    if (!environment || !environment->contains("TORCHELASTIC_RUN_ID")) return environment;
    process = parent_of(folder);
  }
  return std::nullopt;
}

}  // namespace mgtrain
