// The program under test as its users start it: with arguments, environment, folder, limits; its streams and exit
// code. Every wait is bounded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mgtrain::test {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string out, err;

  [[nodiscard]] std::string last_line() const;  // of stdout
};

struct ProgramOptions {
  std::filesystem::path folder = ".";              // working directory
  std::map<std::string, std::string> environment;  // on top of this process's, without any MGTRAIN_*
  uint64_t file_size_limit = 0;                    // bytes (RLIMIT_FSIZE); 0: none
  bool terminal = false;                           // stderr is a terminal of 80 columns
  bool closed_stdout = false;                      // stdout is a pipe that nobody reads
};

/// A process; killed with the object if it still runs.
class Program {
 public:
  Program(const std::filesystem::path& program, std::vector<std::string> arguments, ProgramOptions options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return process_; }
  void send(int signal) const;
  /// Memory it holds now.
  [[nodiscard]] uint64_t resident_bytes() const;
  /// Looks at short intervals until `happened`; false if the process ended first, or after two minutes.
  bool wait_until(const std::function<bool()>& happened);
  /// Waits for the end; after five minutes the process is killed and the exit code is 137.
  ProgramResult wait();

 private:
  bool ended();
  [[noreturn]] void run(const std::filesystem::path& program, std::vector<std::string> arguments,
                        const ProgramOptions& options);

  std::filesystem::path streams_;  // folder of the files that the streams go to
  int terminal_ = -1;              // our end
  std::string shown_;              // on the terminal
  pid_t process_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// mgtrain itself, to its end.
ProgramResult mgtrain_program(std::vector<std::string> arguments, ProgramOptions options = {});
/// Where it lies.
std::filesystem::path mgtrain_path();

/// The whole file as text; empty if there is none.
std::string text_of(const std::filesystem::path& file);

}  // namespace mgtrain::test
