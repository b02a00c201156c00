#include "observe/console.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "observe/event_json.h"
#include "observe/sample_reports.h"
#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/hand_clock.h"

namespace mgtrain {
namespace {

struct Session {
  std::ostringstream out, err;
  HandClock clock;
  CapturedStderr captured;  // the log's lines
  Log log{LogLevel::kInfo};
};

void report_run(Observer& observer) {
  observer.on_start(sample_start());
  observer.on_step(sample_step(50));
  StepReport step = sample_step(1000);
  step.learning_rate = 0.0499877123;
  observer.on_step(step);
  observer.on_scaling(sample_scaling());
  observer.on_eval(sample_eval(157));
  observer.on_checkpoint({.step = 157, .path = "run/checkpoints/step-00000157", .bytes = 45, .seconds = 0.4});
  observer.on_warning("slow-data", "the loader is slow");
  observer.on_end(sample_end());
}

TEST_CASE("stdout has the headline, one line a report with columns below each other, and a last line", "[observe]") {
  Session s;
  {
    ConsoleObserver console(s.out, s.err, s.log, s.clock, {.run_path = "runs/x", .class_names = {"a", "b", "c"}});
    report_run(console);
  }
  const auto lines = lines_of(s.out.str());
  REQUIRE(lines.size() > 8);
  CHECK(lines[0] == "ResNet18 on Fashion-MNIST, 10000 images, on cpu:2");
  CHECK(lines[1] == "train step=50/1570   epoch=1/10  loss=0.0450  top1=0.5000 lr=0.1         images/s=1234");
  CHECK(lines[2] == "train step=1000/1570 epoch=7/10  loss=0.0022  top1=0.5000 lr=0.0499877   images/s=1234");
  CHECK(lines[3] == "scaling devices=2 speedup=1.80 step_seconds=0.05 one_device_seconds=0.09");
  CHECK(lines[4] ==
        "val   step=157/1570  epoch=1/10  loss=0.7500  top1=0.7000 top5=1.0000 images=10     seconds=0.50   best=yes");
  CHECK(lines[6] == "result      top-1 0.7000  top-5 1.0000  loss 0.7500  (10 images, step 1570)");
  CHECK(lines.back() == "mgtrain: done step=1570 val.top1=0.7000 run=runs/x");
  CHECK(s.out.str().back() == '\n');
  CHECK(s.err.str().empty());
  const std::string log = s.captured.text();
  CHECK(log.find("warning: the loader is slow\n") != std::string::npos);
  CHECK(log.find("info: checkpoint step=157 bytes=45 seconds=0.40 path=run/checkpoints/step-00000157\n") !=
        std::string::npos);
}

TEST_CASE("the last line tells how the run ended in a form that scripts can take apart", "[observe]") {
  EndReport end = sample_end();
  const auto line = [&](const std::string& reason, int exit_code) {
    end.reason = reason;
    end.exit_code = exit_code;
    return last_line(end, "runs/my run");
  };
  CHECK(line("done", 0) == "mgtrain: done step=1570 val.top1=0.7000 run=runs/my run");
  CHECK(line("time limit", 0) == "mgtrain: done step=1570 val.top1=0.7000 reason=\"time limit\" run=runs/my run");
  CHECK(line("SIGTERM", 143) == "mgtrain: stopped reason=SIGTERM step=1570 val.top1=0.7000 exit=143 run=runs/my run");
  CHECK(line("done", 1) == "mgtrain: failed reason=assertion step=1570 val.top1=0.7000 exit=1 run=runs/my run");
  end.last_eval.reset();
  CHECK(line("error: a\nb", 6) ==
        "mgtrain: failed reason=\"error: a\\nb\" step=1570 val.top1=nan exit=6 run=runs/my run");
  CHECK(last_line(end, "a\nb").ends_with("run=\"a\\nb\""));
}

TEST_CASE("quiet leaves the last line alone on stdout and no progress", "[observe]") {
  Session s;
  {
    ConsoleObserver console(s.out, s.err, s.log, s.clock,
                            {.run_path = "runs/x", .quiet = true, .progress = ProgressStyle::kLines});
    s.clock.advance(60);
    console.on_progress({.step = 1, .total_steps = 2});
    report_run(console);
  }
  CHECK(s.out.str() == "mgtrain: done step=1570 val.top1=0.7000 run=runs/x\n");
  CHECK(s.err.str().empty());
}

TEST_CASE("json writes the events of metrics.jsonl to stdout and nothing else", "[observe]") {
  Session s;
  {
    ConsoleObserver console(s.out, s.err, s.log, s.clock, {.run_path = "runs/x", .json = true});
    console.on_device_fallback("0,1", "cpu:2", "no NVIDIA GPU in this machine");
    report_run(console);
  }
  std::vector<std::string> kinds;
  for (const std::string& line : lines_of(s.out.str())) kinds.push_back(nlohmann::json::parse(line)["event"]);
  CHECK(kinds == std::vector<std::string>{"device_fallback", "start", "step", "step", "scaling", "eval", "checkpoint",
                                          "warning", "end"});
  CHECK(lines_of(s.out.str())[2] + "\n" == json_line(step_event(sample_step(50), s.clock.unix_seconds())));
}

TEST_CASE("a closed stdout stops nothing", "[observe]") {
  Session s;
  ConsoleObserver console(s.out, s.err, s.log, s.clock, {.run_path = "runs/x"});
  s.out.setstate(std::ios::badbit);
  CHECK_NOTHROW(report_run(console));
}

TEST_CASE("a stdout that throws stops nothing either", "[observe]") {
  Session s;
  ConsoleObserver console(s.out, s.err, s.log, s.clock, {.run_path = "runs/x"});
  s.out.setstate(std::ios::badbit);
  try {
    s.out.exceptions(std::ios::badbit);
  } catch (const std::ios_base::failure&) {
    // Thrown at once, since the stream is broken already; the mask stays set.
  }
  CHECK_NOTHROW(report_run(console));
}

TEST_CASE("log and result lines go around the bar", "[observe]") {
  // One stream stands for the terminal that stdout and stderr share.
  HandClock clock;
  CapturedStderr captured;
  Log log(LogLevel::kInfo);
  std::ostringstream terminal;
  {
    ConsoleObserver console(terminal, terminal, log, clock, {.progress = ProgressStyle::kBar, .terminal_columns = 20});
    console.on_start(sample_start());
    console.on_progress({.step = 1, .total_steps = 1570});
    terminal.str("");
    log.info("hello");
    CHECK(terminal.str() == "\r\x1b[2K\r\x1b[2Kepoch 1/10 [.......");
    terminal.str("");
    console.on_step(sample_step(50));
    CHECK(terminal.str().starts_with("\r\x1b[2Ktrain step=50/1570"));
    CHECK(terminal.str().ends_with("\n\r\x1b[2Kepoch 1/10 [......."));
    terminal.str("");
    console.on_end(sample_end());
    CHECK(terminal.str().starts_with("\r\x1b[2K\nresult"));
    CHECK(terminal.str().ends_with("run=\n"));
    CHECK(terminal.str().find("epoch 1/10") == std::string::npos);
  }
  log.info("after the console is gone");  // the hooks are gone too
}

}  // namespace
}  // namespace mgtrain
