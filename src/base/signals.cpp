#include "base/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

namespace mgtrain {
namespace {

// The state a handler may touch: lock-free atomics only. A process has one set of handlers, hence the globals.
std::atomic<int> first_signal{0};
std::atomic<int> num_interrupts{0};
std::atomic<bool> saving{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// Async-signal-safe: atomics, write(2) and _exit(2) only.
void on_stop_signal(int signal) {
  const int saved_errno = errno;
  if (!saving.load()) {
    write_to_stderr(signal == SIGINT ? "mgtrain: SIGINT: nothing to save\n" : "mgtrain: SIGTERM: nothing to save\n");
    _exit(static_cast<int>(exit_code_of_signal(signal)));
  }
  if (signal == SIGINT && num_interrupts.fetch_add(1) >= 1) {
    write_to_stderr("mgtrain: second SIGINT: leaving without saving\n");
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  errno = saved_errno;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction stop {};
  stop.sa_handler = on_stop_signal;
  // Interrupted reads and writes go on by themselves; the run polls the flag between steps. SIGINT is handled even
  // where a shell started this process in the background with SIGINT ignored: `kill -INT` must save and stop.
  stop.sa_flags = SA_RESTART;
  sigemptyset(&stop.sa_mask);
  sigaddset(&stop.sa_mask, SIGINT);
  sigaddset(&stop.sa_mask, SIGTERM);
  sigaction(SIGINT, &stop, nullptr);
  sigaction(SIGTERM, &stop, nullptr);

  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  // A file that reaches a limit (ulimit -f) is an error of the write, which is told, not the end of the process.
  sigaction(SIGXFSZ, &ignore, nullptr);
}

int stop_signal() { return first_signal.load(); }

void begin_saving() { saving.store(true); }
void end_saving() { saving.store(false); }

ExitCode exit_code_of_signal(int signal) { return signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kTerminated; }

}  // namespace mgtrain
