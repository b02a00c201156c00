// What this process writes to file descriptor 2 while the object lives: through a pipe to a file, or through a
// pseudo-terminal, so that a program's own test for a terminal says yes. Not thread-safe; one at a time.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mgtrain {

class CapturedStderr {
 public:
  enum class Target { kFile, kTerminal };

  explicit CapturedStderr(Target target = Target::kFile) : saved_(dup(STDERR_FILENO)) {
    std::fflush(stderr);
    int writing = -1;
    if (target == Target::kTerminal) {
      termios raw{};
      cfmakeraw(&raw);
      if (openpty(&reading_, &writing, nullptr, &raw, nullptr) != 0) std::abort();
      fcntl(reading_, F_SETFL, O_NONBLOCK);
    } else {
      file_ = std::tmpfile();
      writing = dup(fileno(file_));
    }
    dup2(writing, STDERR_FILENO);
    close(writing);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  ~CapturedStderr() { text(); }

  /// Ends the capture and gives all that was written.
  std::string text() {
    if (saved_ < 0) return text_;
    std::fflush(stderr);
    if (file_ != nullptr) {
      std::rewind(file_);
      read_all(fileno(file_));
      std::fclose(file_);
    } else {
      read_all(reading_);
      close(reading_);
    }
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
    return text_;
  }

 private:
  void read_all(int from) {
    char buffer[4096];
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) text_.append(buffer, static_cast<size_t>(n));
  }

  int saved_;
  int reading_ = -1;
  std::FILE* file_ = nullptr;
  std::string text_;
};

/// An environment variable with another value (null: unset) while the object lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    had_ = old != nullptr;
    if (had_) old_ = old;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~ScopedVariable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string old_;
};

}  // namespace mgtrain
