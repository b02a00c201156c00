// Row 66 (Lightning-AI/pytorch-lightning#6647, tqdm/tqdm#750): CI logs full of progress lines or ^M.
#include <iostream>
#include <sstream>

#include "base/log.h"
#include "observe/console.h"
#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/hand_clock.h"

namespace mgtrain {
namespace {

using Target = CapturedStderr::Target;

struct Output {
  std::string to_stdout, to_stderr;
};

// A run of 60 s with 100 steps a second, a log line now and then, reported as app/ would.
Output output_of_a_minute(Target target, const char* term, const char* no_color) {
  const ScopedVariable term_variable("TERM", term), no_color_variable("NO_COLOR", no_color);
  std::ostringstream out;
  CapturedStderr captured(target);
  {
    Log log(LogLevel::kInfo);
    HandClock clock;
    ConsoleObserver console(out, std::cerr, log, clock, {.run_path = "runs/x", .progress = progress_style_of_stderr()});
    console.on_start({.headline = "a run", .total_steps = 6000, .steps_per_epoch = 600, .epochs = 10});
    for (int64_t step = 1; step <= 6000; ++step) {
      clock.advance(0.01);
      console.on_progress({.step = step, .total_steps = 6000, .epoch = step / 600, .loss = 0.5, .phase = "train"});
      if (step % 2000 == 0) console.on_warning("test", "a warning");
    }
    console.on_end({.reason = "done", .step = 6000});
  }
  return {out.str(), captured.text()};
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_CASE(
    "off a terminal, with TERM=dumb and with NO_COLOR there is neither CR nor escape, and a line per 10 s at most",
    "[issues]") {
  struct Case {
    Target target;
    const char* term;
    const char* no_color;
  };
  const Case cases[] = {{Target::kFile, "xterm", nullptr},
                        {Target::kFile, "dumb", "1"},
                        {Target::kTerminal, "dumb", nullptr},
                        {Target::kTerminal, "xterm", "1"}};
  for (const Case& c : cases) {
    const Output output = output_of_a_minute(c.target, c.term, c.no_color);
    INFO("terminal " << (c.target == Target::kTerminal) << " TERM=" << c.term);
    CHECK(output.to_stderr.find_first_of("\r\x1b") == std::string::npos);
    CHECK(output.to_stdout.find_first_of("\r\x1b") == std::string::npos);
    const size_t progress_lines = count(output.to_stderr, "progress phase=");
    CHECK(progress_lines >= 5);
    CHECK(progress_lines <= 6);
    CHECK(count(output.to_stderr, "warning: a warning\n") == 3);
    CHECK(output.to_stderr.ends_with('\n'));
    CHECK(output.to_stdout.ends_with("mgtrain: done step=6000 val.top1=nan run=runs/x\n"));
  }
}

TEST_CASE("on a terminal the bar leaves whole log lines and a clean last line", "[issues]") {
  const Output output = output_of_a_minute(Target::kTerminal, "xterm", nullptr);
  CHECK(count(output.to_stderr, "progress phase=") == 0);
  CHECK(count(output.to_stderr, "step 2000/6000") > 0);
  // Each warning begins where the bar was erased, and the bar is off the screen at the end.
  CHECK(count(output.to_stderr, "\r\x1b[2K[") == 3);
  CHECK(output.to_stderr.ends_with("\r\x1b[2K"));
}

}  // namespace
}  // namespace mgtrain
