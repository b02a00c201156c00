// The descriptions in a run folder: config.toml, plan.json, environment.json.
#pragma once

#include <filesystem>

#include "app/commands.h"
#include "app/decide.h"
#include "base/files.h"

namespace mgtrain {

/// Writes them, each whole or not at all. Throws OutputError.
void write_run_records(const Decision& decision, const CommandLine& line, const std::filesystem::path& folder,
                       FileSystem& files);

}  // namespace mgtrain
