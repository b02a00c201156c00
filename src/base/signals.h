// SIGINT and SIGTERM as flags to poll. A handler only sets a flag; a second SIGINT leaves at once with 130.
// SIGPIPE is ignored (a closed stdout must not stop training), and SIGXFSZ (a full file is the writer's to tell).
#pragma once

#include "base/exit_code.h"

namespace mgtrain {

/// Installs the handlers. Call once, from the main thread, before other threads start.
void install_signal_handlers();

/// 0, or the signal that asked this process to stop (SIGINT or SIGTERM). Any thread.
int stop_signal();

/// Until a run has something to save, a signal ends the process at once with its exit code, after writing
/// "nothing to save" to stderr. `begin_saving` switches to flag-and-poll; `end_saving` back.
void begin_saving();
void end_saving();

/// begin_saving() for a scope.
class SavingScope {
 public:
  SavingScope() { begin_saving(); }
  ~SavingScope() { end_saving(); }
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;
};

/// The exit code that belongs to a stop signal (130 or 143).
ExitCode exit_code_of_signal(int signal);

}  // namespace mgtrain
