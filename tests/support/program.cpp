#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>

extern char** environ;

namespace mgtrain::test {

namespace fs = std::filesystem;

namespace {

constexpr useconds_t kInterval = 2000;  // microseconds between two looks
constexpr int kLooksForEvent = 60'000, kLooksForEnd = 150'000;

void send_to_file(int stream, const fs::path& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (descriptor < 0 || dup2(descriptor, stream) < 0) _exit(126);
  close(descriptor);
}

}  // namespace

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string ProgramResult::last_line() const {
  std::string_view text = out;
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

Program::Program(const fs::path& program, std::vector<std::string> arguments, ProgramOptions options) {
  std::string pattern = (fs::temp_directory_path() / "mgtrain-program-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder " + pattern);
  streams_ = pattern;
  int other_end = -1;
  if (options.terminal) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    if (openpty(&terminal_, &other_end, nullptr, nullptr, &size) != 0) throw std::runtime_error("no terminal");
    fcntl(terminal_, F_SETFD, FD_CLOEXEC);
    fcntl(terminal_, F_SETFL, O_NONBLOCK);
  }
  // A signal sent to the new process waits until it is no longer a copy of this one, with this one's handlers.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  process_ = fork();
  if (process_ != 0) sigprocmask(SIG_SETMASK, &before, nullptr);
  if (process_ < 0) throw std::runtime_error("cannot start a process");
  if (process_ == 0) {
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (other_end >= 0) dup2(other_end, STDERR_FILENO);
    run(program, std::move(arguments), options);
  }
  if (other_end >= 0) close(other_end);
}

namespace {

/// The tests may run inside a job of SLURM or MPI; the programs they start do not.
bool of_a_launcher(const std::string& name) {
  for (const char* prefix : {"SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "MPI_LOCAL"})
    if (name.starts_with(prefix)) return true;
  for (const char* own : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (name == own) return true;
  return false;
}

}  // namespace

void Program::run(const fs::path& program, std::vector<std::string> arguments, const ProgramOptions& options) {
  std::error_code error;
  fs::current_path(options.folder, error);
  if (error) _exit(126);
  for (char** entry = environ; *entry != nullptr;) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (name.starts_with("MGTRAIN_") || name == "NO_COLOR" || of_a_launcher(name)) {
      unsetenv(name.c_str());
      entry = environ;
    } else {
      ++entry;
    }
  }
  setenv("TERM", "xterm", 1);
  // Threads that wait by spinning are many times slower beside another process; bits do not depend on it.
  setenv("OMP_WAIT_POLICY", "passive", 1);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.file_size_limit > 0) {
    const rlimit limit{.rlim_cur = options.file_size_limit, .rlim_max = options.file_size_limit};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.closed_stdout) {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
  } else {
    send_to_file(STDOUT_FILENO, streams_ / "out");
  }
  if (!options.terminal) send_to_file(STDERR_FILENO, streams_ / "err");
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  std::vector<char*> pointers{const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  _exit(127);
}

Program::~Program() {
  if (!ended()) {
    kill(process_, SIGKILL);
    waitpid(process_, &status_, 0);
  }
  if (terminal_ >= 0) close(terminal_);
  std::error_code ignored;
  fs::remove_all(streams_, ignored);
}

void Program::send(int signal) const { kill(process_, signal); }

uint64_t Program::resident_bytes() const {
  std::ifstream statm("/proc/" + std::to_string(process_) + "/statm");
  uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

bool Program::ended() {
  if (terminal_ >= 0) {
    char buffer[4096];
    for (ssize_t got; (got = read(terminal_, buffer, sizeof buffer)) > 0;)
      shown_.append(buffer, static_cast<size_t>(got));
  }
  if (!ended_ && waitpid(process_, &status_, WNOHANG) == process_) ended_ = true;
  return ended_;
}

bool Program::wait_until(const std::function<bool()>& happened) {
  for (int look = 0; look < kLooksForEvent; ++look) {
    if (happened()) return true;
    if (ended()) return happened();
    usleep(kInterval);
  }
  return false;
}

ProgramResult Program::wait() {
  for (int look = 0; look < kLooksForEnd && !ended(); ++look) usleep(kInterval);
  if (!ended_) {
    kill(process_, SIGKILL);
    waitpid(process_, &status_, 0);
    ended_ = true;
  }
  ended();  // what is left on the terminal
  return {.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_),
          .out = text_of(streams_ / "out"),
          .err = terminal_ >= 0 ? shown_ : text_of(streams_ / "err")};
}

fs::path mgtrain_path() { return MGTRAIN_PROGRAM; }

ProgramResult mgtrain_program(std::vector<std::string> arguments, ProgramOptions options) {
  return Program(mgtrain_path(), std::move(arguments), std::move(options)).wait();
}

}  // namespace mgtrain::test
