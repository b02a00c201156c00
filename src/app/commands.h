// The commands of mgtrain: one file each. cli.cpp fills a CommandLine from argv; program.cpp calls the command and
// turns errors into the exit code.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/exit_code.h"
#include "base/files.h"
#include "base/log.h"
#include "config/check.h"
#include "devices/inventory.h"

namespace mgtrain {

struct CommandLine {
  enum class Command {
    kTrain,
    kEval,
    kPredict,
    kDevices,
    kPlan,
    kDataInfo,
    kDataCheck,
    kCheckpointVerify,
    kCheckpointInspect,
    kConfig,
    kText,  // --help, --version: print `text`, exit 0
  };
  Command command = Command::kTrain;
  ConfigSources config;               // train, plan, eval, predict, data, config: files, --set, flags, environment
  std::vector<std::string> items;     // positionals: RUN, or RUN ITEM..., or PATH
  std::string output;                 // --output
  std::string resume;                 // --resume: empty, "auto" or a path
  bool resume_changes_allow = false;  // --resume-changes allow
  bool overwrite = false;
  bool print_config = false;
  bool dry_run = false;  // train --dry-run is plan
  bool json = false, quiet = false, markdown = false;
  int topk = 1;            // predict
  std::string checkpoint;  // eval, predict: which checkpoint of the run
  std::string text;
  std::filesystem::path program;       // the running executable, resolved
  std::vector<std::string> arguments;  // argv, for the record
};

/// Parses argv. Throws ConfigError for wrong usage, with the nearest name. Reads the environment's MGTRAIN_*.
CommandLine parse_command_line(int argc, char** argv, char** environment);

/// What every command may use of the outside; `out` is stdout, for results only. `inventory` is the machine's.
struct AppContext {
  FileSystem& files;
  Clock& clock;
  Log& log;
  std::ostream& out;
  std::function<Inventory()> inventory;  // for commands that use devices
};

ExitCode run_train(const CommandLine& line, AppContext& context);
ExitCode run_plan(const CommandLine& line, AppContext& context);
ExitCode run_eval(const CommandLine& line, AppContext& context);
ExitCode run_predict(const CommandLine& line, AppContext& context);
ExitCode run_devices(const CommandLine& line, AppContext& context);
ExitCode run_data_info(const CommandLine& line, AppContext& context);
ExitCode run_data_check(const CommandLine& line, AppContext& context);
ExitCode run_checkpoint_verify(const CommandLine& line, AppContext& context);
ExitCode run_checkpoint_inspect(const CommandLine& line, AppContext& context);
ExitCode run_config(const CommandLine& line, AppContext& context);

}  // namespace mgtrain
