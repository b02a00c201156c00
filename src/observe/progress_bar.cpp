#include "observe/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string_view>

#include "observe/number_text.h"

namespace mgtrain {
namespace {

constexpr double kSecondsPerDrawing = 0.1;
constexpr double kSecondsPerLine = 10;
constexpr char kEraseLine[] = "\r\x1b[2K";

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string of_total(int64_t value, int64_t total) {
  return std::to_string(value) + (total > 0 ? "/" + std::to_string(total) : "");
}

// "epoch 3/10 [##........] step 450/1570 loss 0.4321 1234 images/s 1m23s left"
std::string bar_text(const Progress& progress, int64_t num_epochs) {
  constexpr int64_t kWidth = 10;  // all fits 80 columns
  std::string text = "epoch " + of_total(progress.epoch + 1, num_epochs) + " ";
  if (progress.total_steps > 0) {
    const int64_t step = std::clamp<int64_t>(progress.step, 0, progress.total_steps);
    const auto filled = static_cast<size_t>(static_cast<double>(kWidth) * static_cast<double>(step) /
                                            static_cast<double>(progress.total_steps));
    text += "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "] ";
  }
  text += "step " + of_total(progress.step, progress.total_steps);
  if (progress.loss) text += " loss " + fixed_text(*progress.loss, 4);
  text +=
      " " + fixed_text(progress.images_per_second, 0) + " images/s " + duration_text(progress.seconds_left) + " left";
  if (!progress.phase.empty() && progress.phase != "train") text += " (" + progress.phase + ")";
  return text;
}

std::string line_text(const Progress& progress, int64_t num_epochs) {
  std::string text = "progress phase=" + value_text(progress.phase.empty() ? "train" : progress.phase) +
                     " epoch=" + of_total(progress.epoch + 1, num_epochs) +
                     " step=" + of_total(progress.step, progress.total_steps);
  if (progress.loss) text += " loss=" + fixed_text(*progress.loss, 4);
  return text + " images/s=" + fixed_text(progress.images_per_second, 0) +
         " left=" + duration_text(progress.seconds_left) + "\n";
}

}  // namespace

ProgressStyle progress_style(bool is_terminal, const char* term, const char* no_color) {
  const bool can_move_cursor = term != nullptr && std::string_view(term) != "dumb" && *term != '\0';
  const bool wants_plain = no_color != nullptr && *no_color != '\0';
  return is_terminal && can_move_cursor && !wants_plain ? ProgressStyle::kBar : ProgressStyle::kLines;
}

ProgressStyle progress_style_of_stderr() {
  return progress_style(isatty(STDERR_FILENO) == 1, std::getenv("TERM"), std::getenv("NO_COLOR"));
}

ProgressBar::ProgressBar(std::ostream& err, const Clock& clock, ProgressStyle style, int columns)
    : err_(err), clock_(clock), columns_(columns), style_(style), last_shown_(clock.monotonic_seconds()) {
  // The bar shows the first step at once; lines start after their first period.
  if (style_ == ProgressStyle::kBar) last_shown_ -= kSecondsPerDrawing;
}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(const Progress& progress, int64_t num_epochs) {
  const std::lock_guard lock(mutex_);
  if (style_ == ProgressStyle::kNone) return;
  const double now = clock_.monotonic_seconds();
  if (now - last_shown_ < (style_ == ProgressStyle::kBar ? kSecondsPerDrawing : kSecondsPerLine)) return;
  last_shown_ = now;
  if (style_ == ProgressStyle::kLines) {
    err_ << line_text(progress, num_epochs) << std::flush;
    return;
  }
  text_ = bar_text(progress, num_epochs);
  draw();
}

void ProgressBar::clear() {
  const std::lock_guard lock(mutex_);
  erase();
}

void ProgressBar::redraw() {
  const std::lock_guard lock(mutex_);
  draw();
}

void ProgressBar::finish() {
  const std::lock_guard lock(mutex_);
  erase();
  text_.clear();
  style_ = ProgressStyle::kNone;
}

void ProgressBar::erase() {
  if (on_screen_) err_ << kEraseLine << std::flush;
  on_screen_ = false;
}

void ProgressBar::draw() {
  if (text_.empty()) return;
  // One column stays free: a full line would wrap and could not be erased.
  const int columns = std::max(2, columns_ > 0 ? columns_ : terminal_columns());
  err_ << kEraseLine << std::string_view(text_).substr(0, static_cast<size_t>(columns) - 1) << std::flush;
  on_screen_ = true;
}

}  // namespace mgtrain
