// The run's log: lines for a person on stderr and, once there is a run folder, in its log.txt. Thread-safe. The
// implementation is spdlog, named in log.cpp alone (its fmt and LibTorch's do not compile in one file).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace mgtrain {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

class Log {
 public:
  /// Writes lines of `level` and above to stderr: "[12:34:56] warning: text" with colour on a terminal only
  /// (never when NO_COLOR is set or TERM=dumb).
  explicit Log(LogLevel level);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Also writes every line (debug and above) to `file`, appending. Throws OutputError if it cannot be opened.
  void add_file(const std::filesystem::path& file);

  /// From here on stderr has errors alone, and files as before.
  void only_errors();

  void debug(std::string_view text);
  void info(std::string_view text);
  void warning(std::string_view text);
  void error(std::string_view text);
  /// Pushes what is buffered to the file.
  void flush();

  /// Called before and after a line goes to stderr, so that a progress bar can clear and redraw itself.
  void set_line_hooks(void (*before)(void*), void (*after)(void*), void* context);

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

}  // namespace mgtrain
