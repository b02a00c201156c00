#include "app/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>

#include "app/commands.h"
#include "app/failure.h"
#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/signals.h"
#include "config/check.h"

namespace mgtrain {
namespace {

using Command = CommandLine::Command;

ExitCode dispatch(const CommandLine& line, AppContext& context) {
  if (line.command == Command::kText) {
    context.out << line.text;
    return ExitCode::kDone;
  }
  if (line.print_config) return run_config(line, context);
  switch (line.command) {
    case Command::kTrain:
      return line.dry_run ? run_plan(line, context) : run_train(line, context);
    case Command::kPlan:
      return run_plan(line, context);
    case Command::kEval:
      return run_eval(line, context);
    case Command::kPredict:
      return run_predict(line, context);
    case Command::kDevices:
      return run_devices(line, context);
    case Command::kDataInfo:
      return run_data_info(line, context);
    case Command::kDataCheck:
      return run_data_check(line, context);
    case Command::kCheckpointVerify:
      return run_checkpoint_verify(line, context);
    case Command::kCheckpointInspect:
      return run_checkpoint_inspect(line, context);
    case Command::kConfig:
      return run_config(line, context);
    case Command::kText:
      break;
  }
  return ExitCode::kDone;
}

/// output.log_level, before the command checks the config: problems are its to tell.
LogLevel log_level(const CommandLine& line) {
  if (line.quiet) return LogLevel::kError;
  ConfigSources sources = line.config;
  // A pipe (--config <(...)) can be read once only, and that is the command's.
  std::erase_if(sources.files, [](const std::filesystem::path& file) {
    std::error_code error;
    return !std::filesystem::is_regular_file(file, error);
  });
  const std::string level = resolve(sources).values.output.log_level;
  if (level == "debug") return LogLevel::kDebug;
  if (level == "warning") return LogLevel::kWarning;
  if (level == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

/// Whether stdout failed, with the reason in errno. Whoever closed the pipe has read enough: nothing is lost.
bool result_is_lost() {
  std::cout.flush();
  if (std::cout) return false;
  // The stream has forgotten why; one more byte to the same end says it.
  return write(STDOUT_FILENO, "\n", 1) < 0 && errno != EPIPE;
}

ExitCode run(int argc, char** argv, const std::function<Inventory()>& inventory) {
  CommandLine line = parse_command_line(argc, argv, environ);
  std::error_code error;
  line.program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto files = make_posix_file_system();
  SystemClock clock;
  Log log(log_level(line));
  AppContext context{.files = *files, .clock = clock, .log = log, .out = std::cout, .inventory = inventory};
  const ExitCode code = dispatch(line, context);
  log.flush();
  const bool training = line.command == Command::kTrain && !line.print_config;  // its results are in its run folder
  if (code == ExitCode::kDone && !training && result_is_lost()) {
    throw OutputError(std::string("the result could not be written to stdout: ") + std::strerror(errno));
  }
  return code;
}

}  // namespace

int run_program(int argc, char** argv, const std::function<Inventory()>& inventory) {
  tune_allocator();
  try {
    // GPU numbers are those of nvidia-smi. Read by the driver at the first CUDA call, which is still to come.
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
    install_signal_handlers();
    return static_cast<int>(run(argc, argv, inventory));
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception());
    std::cout.flush();
    std::cerr << "mgtrain: error: " << failure.message << std::endl;
    return static_cast<int>(failure.code);
  }
}

}  // namespace mgtrain
