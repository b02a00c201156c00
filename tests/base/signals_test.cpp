#include "base/signals.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <thread>

#include "support/catch.h"

namespace mgtrain {
namespace {

struct ChildEnd {
  int exit_code = -1;  // -1: ended by a signal
  std::string to_stderr;
};

// Runs `body` in a process of its own, since handlers belong to a process; what it returns is the exit code.
ChildEnd run_in_child(const std::function<int()>& body) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(pipe_ends[0]);
    dup2(pipe_ends[1], STDERR_FILENO);
    install_signal_handlers();
    _exit(body());
  }
  close(pipe_ends[1]);
  ChildEnd end;
  char buffer[512];
  for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    end.to_stderr.append(buffer, static_cast<size_t>(n));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

TEST_CASE("before there is anything to save, a signal ends the process at once with its exit code", "[base]") {
  const ChildEnd interrupted = run_in_child([] { return raise(SIGINT); });
  CHECK(interrupted.exit_code == 130);
  CHECK(interrupted.to_stderr == "mgtrain: SIGINT: nothing to save\n");
  const ChildEnd terminated = run_in_child([] { return raise(SIGTERM); });
  CHECK(terminated.exit_code == 143);
  CHECK(terminated.to_stderr == "mgtrain: SIGTERM: nothing to save\n");
}

TEST_CASE("while saving is possible, the first signal only sets a flag that every thread sees", "[base]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const ChildEnd end = run_in_child([signal] {
      begin_saving();
      if (stop_signal() != 0) return 1;
      errno = 12345;
      raise(signal);
      if (errno != 12345) return 2;
      if (stop_signal() != signal) return 3;
      int seen = 0;
      std::thread([&seen] { seen = stop_signal(); }).join();
      return seen == signal ? 0 : 4;
    });
    CHECK(end.exit_code == 0);
    CHECK(end.to_stderr.empty());
  }
}

TEST_CASE("a second SIGINT leaves at once with 130", "[base]") {
  const ChildEnd end = run_in_child([] {
    begin_saving();
    raise(SIGINT);
    raise(SIGINT);
    return 0;
  });
  CHECK(end.exit_code == 130);
  CHECK(end.to_stderr == "mgtrain: second SIGINT: leaving without saving\n");
}

TEST_CASE("repeated SIGTERM, or one SIGINT after it, still lets the run save and keeps the first signal", "[base]") {
  const ChildEnd end = run_in_child([] {
    begin_saving();
    raise(SIGTERM);
    raise(SIGTERM);
    raise(SIGINT);
    return stop_signal() == SIGTERM ? 0 : 1;
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("after saving has ended, a signal ends the process at once again", "[base]") {
  const ChildEnd end = run_in_child([] {
    begin_saving();
    end_saving();
    raise(SIGTERM);
    return 0;
  });
  CHECK(end.exit_code == 143);
}

TEST_CASE("a write to a closed pipe fails with EPIPE instead of ending the process", "[base]") {
  const ChildEnd end = run_in_child([] {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    close(ends[0]);
    return write(ends[1], "x", 1) == -1 && errno == EPIPE ? 0 : 2;
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("SIGINT is handled even if the parent ignored it, as a shell does for background jobs", "[base]") {
  const ChildEnd end = run_in_child([] {
    signal(SIGINT, SIG_IGN);
    install_signal_handlers();
    raise(SIGINT);
    return 0;
  });
  CHECK(end.exit_code == 130);
}

TEST_CASE("stop signals have the exit codes of the shell", "[base]") {
  CHECK(exit_code_of_signal(SIGINT) == ExitCode::kInterrupted);
  CHECK(exit_code_of_signal(SIGTERM) == ExitCode::kTerminated);
}

}  // namespace
}  // namespace mgtrain
