// What this process writes to file descriptor 2 while the object lives: in a file, or through a
// pseudo-terminal, so that a program's own test for a terminal says yes. Not thread-safe; one at a time.
#pragma once

#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

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
      // A terminal buffers 4 KB only; someone must read while the test writes.
      reader_ = std::thread([this] { read_all(); });
    } else {
      file_ = std::tmpfile();
      reading_ = fileno(file_);
      writing = dup(reading_);
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
    dup2(saved_, STDERR_FILENO);  // nobody writes to the terminal any more: its reader comes to the end
    close(saved_);
    saved_ = -1;
    if (reader_.joinable()) {
      reader_.join();
      close(reading_);
    } else {
      lseek(reading_, 0, SEEK_SET);
      read_all();
      std::fclose(file_);
    }
    return text_;
  }

 private:
  void read_all() {
    char buffer[4096];
    for (ssize_t n; (n = read(reading_, buffer, sizeof buffer)) > 0;) text_.append(buffer, static_cast<size_t>(n));
  }

  int saved_;
  int reading_ = -1;
  std::FILE* file_ = nullptr;
  std::thread reader_;
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
