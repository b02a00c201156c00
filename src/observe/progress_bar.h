// How far a run is, on stderr: on a terminal a bar redrawn at most 10 times a second, else at most one plain line
// per 10 s (no carriage return, no escape sequence). Lines of the log and of stdout go around the bar: see without().
// Thread-safe: log lines come from any thread.
#pragma once

#include <iosfwd>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "observe/observer.h"

namespace mgtrain {

enum class ProgressStyle { kNone, kLines, kBar };

/// A bar on a terminal that can move its cursor; plain lines elsewhere, with TERM=dumb and with NO_COLOR.
ProgressStyle progress_style(bool is_terminal, const char* term, const char* no_color);
/// The style for this process's stderr and environment.
ProgressStyle progress_style_of_stderr();

class ProgressBar {
 public:
  /// `columns`: the terminal's width; 0: asked of stderr at each drawing. `err` and `clock` must outlive the bar.
  ProgressBar(std::ostream& err, const Clock& clock, ProgressStyle style, int columns = 0);
  /// Takes the bar off the screen.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows `progress` if the time for it has come. `num_epochs`: 0 if unknown.
  void update(const Progress& progress, int64_t num_epochs);
  /// Takes the bar off the screen / puts it back: around a line that someone else writes.
  void clear();
  void redraw();
  /// Off the screen for good; later updates show nothing.
  void finish();

  /// Calls `write` while the bar is off the screen and nobody can draw it.
  template <typename Write>
  void without(Write&& write) {
    const std::lock_guard lock(mutex_);
    erase();
    write();
    draw();
  }

 private:
  void erase();
  void draw();

  std::ostream& err_;
  const Clock& clock_;
  const int columns_;
  std::mutex mutex_;
  ProgressStyle style_;
  double last_shown_;
  std::string text_;  // what the bar says; empty: no bar
  bool on_screen_ = false;
};

}  // namespace mgtrain
