#include "observe/progress_bar.h"

#include <sstream>

#include "observe/sample_reports.h"
#include "support/catch.h"
#include "support/hand_clock.h"

namespace mgtrain {
namespace {

constexpr char kErase[] = "\r\x1b[2K";

Progress at_step(int64_t step) {
  return {.step = step,
          .total_steps = 100,
          .epoch = 2,
          .loss = 0.4321,
          .images_per_second = 1234,
          .seconds_left = 83,
          .phase = "train"};
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

TEST_CASE("a bar is drawn only on a terminal that can move its cursor and wants no plain text", "[observe]") {
  CHECK(progress_style(true, "xterm", nullptr) == ProgressStyle::kBar);
  CHECK(progress_style(true, "xterm", "") == ProgressStyle::kBar);
  CHECK(progress_style(false, "xterm", nullptr) == ProgressStyle::kLines);
  CHECK(progress_style(true, "dumb", nullptr) == ProgressStyle::kLines);
  CHECK(progress_style(true, nullptr, nullptr) == ProgressStyle::kLines);
  CHECK(progress_style(true, "xterm", "1") == ProgressStyle::kLines);
}

TEST_CASE("the bar shows epoch, step, loss, images/s and time left", "[observe]") {
  std::ostringstream err;
  HandClock clock;
  ProgressBar bar(err, clock, ProgressStyle::kBar, 120);
  bar.update(at_step(45), 10);
  CHECK(err.str() == std::string(kErase) + "epoch 3/10 [####......] step 45/100 loss 0.4321 1234 images/s 1m23s left");
}

TEST_CASE("the bar is redrawn at most ten times a second", "[observe]") {
  std::ostringstream err;
  HandClock clock;
  ProgressBar bar(err, clock, ProgressStyle::kBar, 120);
  for (int i = 0; i < 2000; ++i) {  // two seconds
    bar.update(at_step(i / 20), 10);
    clock.advance(0.001);
  }
  const size_t drawings = count(err.str(), "epoch");
  CHECK(drawings <= 20);
  CHECK(drawings >= 18);
}

TEST_CASE("the bar never fills the last column of a narrow terminal", "[observe]") {
  std::ostringstream err;
  HandClock clock;
  ProgressBar bar(err, clock, ProgressStyle::kBar, 20);
  bar.update(at_step(45), 10);
  CHECK(err.str() == std::string(kErase) + "epoch 3/10 [####...");
}

TEST_CASE("a line written by someone else goes where the bar was, and the bar comes back below", "[observe]") {
  std::ostringstream err;
  HandClock clock;
  ProgressBar bar(err, clock, ProgressStyle::kBar, 20);
  bar.without([&] { err << "before\n"; });
  CHECK(err.str() == "before\n");  // no bar yet: nothing to erase
  bar.update(at_step(45), 10);
  err.str("");
  bar.without([&] { err << "line\n"; });
  CHECK(err.str() == std::string(kErase) + "line\n" + kErase + "epoch 3/10 [####...");
  err.str("");
  bar.finish();
  bar.finish();
  clock.advance(60);
  bar.update(at_step(46), 10);
  bar.redraw();
  CHECK(err.str() == kErase);  // gone once, and for good
}

TEST_CASE("off a terminal there is at most one plain line per 10 s", "[observe]") {
  std::ostringstream err;
  HandClock clock;
  ProgressBar bar(err, clock, ProgressStyle::kLines);
  for (int i = 0; i < 350; ++i) {  // 35 seconds
    bar.update(at_step(i / 10), 10);
    clock.advance(0.1);
  }
  bar.without([&] { err << "line\n"; });
  const auto lines = lines_of(err.str());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "progress phase=train epoch=3/10 step=10/100 loss=0.4321 images/s=1234 left=1m23s");
  CHECK(lines[3] == "line");
  CHECK(err.str().find_first_of("\r\x1b") == std::string::npos);
}

TEST_CASE("a style of none shows nothing", "[observe]") {
  std::ostringstream err;
  HandClock clock;
  ProgressBar bar(err, clock, ProgressStyle::kNone);
  clock.advance(100);
  bar.update(at_step(1), 10);
  bar.redraw();
  CHECK(err.str().empty());
}

}  // namespace
}  // namespace mgtrain
