#include "base/log.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/text_pattern.h"

namespace mgtrain {
namespace {

using Target = CapturedStderr::Target;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("a log line has time, level and text, and lines below the level are left out", "[base]") {
  CapturedStderr captured;
  {
    Log log(LogLevel::kInfo);
    log.debug("hidden");
    log.info("shown {} %s");
    log.warning("careful");
    log.error("broken");
  }
  const auto lines = lines_of(captured.text());
  REQUIRE(lines.size() == 3);
  const std::string time = "[##:##:##] ";
  CHECK(fits(lines[0], time + "info: shown {} %s"));
  CHECK(fits(lines[1], time + "warning: careful"));
  CHECK(fits(lines[2], time + "error: broken"));
}

TEST_CASE("errors are shown at every log level", "[base]") {
  for (const LogLevel level : {LogLevel::kError, LogLevel::kOff}) {
    CapturedStderr captured;
    {
      Log log(level);
      log.warning("careful");
      log.error("broken");
    }
    const auto lines = lines_of(captured.text());
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("error: broken") != std::string::npos);
  }
}

TEST_CASE("a log is coloured on a terminal only, and not with NO_COLOR or TERM=dumb", "[base]") {
  struct Case {
    Target target;
    const char* term;
    const char* no_color;
    bool coloured;
  };
  const Case cases[] = {{Target::kTerminal, "xterm", nullptr, true},  {Target::kTerminal, "xterm", "", true},
                        {Target::kTerminal, "xterm", "1", false},     {Target::kTerminal, "dumb", nullptr, false},
                        {Target::kTerminal, nullptr, nullptr, false}, {Target::kFile, "xterm", nullptr, false}};
  for (const Case& c : cases) {
    const ScopedVariable term("TERM", c.term), no_color("NO_COLOR", c.no_color);
    CapturedStderr captured(c.target);
    Log(LogLevel::kInfo).warning("careful");
    const std::string text = captured.text();
    INFO("TERM=" << (c.term ? c.term : "(unset)") << " NO_COLOR=" << (c.no_color ? c.no_color : "(unset)"));
    CHECK(text.find("careful") != std::string::npos);
    CHECK((text.find('\x1b') != std::string::npos) == c.coloured);
  }
}

TEST_CASE("a log file takes every line whatever the level, after what it held, at once and without colour", "[base]") {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "log.txt";
  std::ofstream(file) << "old\n";
  CapturedStderr captured;
  Log log(LogLevel::kError);
  log.info("before the file");
  log.add_file(file);
  log.debug("one");
  log.error("two");
  const auto lines = lines_of(content_of(file));  // the log is still open
  captured.text();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "old");
  const std::string time = "[####-##-## ##:##:##] ";
  CHECK(fits(lines[1], time + "debug: one"));
  CHECK(fits(lines[2], time + "error: two"));
}

TEST_CASE("a log file that cannot be opened is an output error that names it", "[base]") {
  const test::TemporaryFolder folder;
  CapturedStderr captured;
  Log log(LogLevel::kInfo);
  REQUIRE_THROWS_AS(log.add_file(folder.path()), OutputError);
  try {
    log.add_file(folder.path());
  } catch (const OutputError& error) {
    CHECK(std::string(error.what()).find(folder.path().string()) != std::string::npos);
    CHECK(error.code() == ExitCode::kOutput);
  }
}

TEST_CASE("a log file on a full disk is complained of once and stops nothing", "[base]") {
  if (!std::filesystem::exists("/dev/full")) return;
  CapturedStderr captured;
  {
    Log log(LogLevel::kInfo);
    log.add_file("/dev/full");
    log.info("one");
    log.info("two");
  }
  const auto lines = lines_of(captured.text());
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].find("info: one") != std::string::npos);
  CHECK(lines[1].find("the log is incomplete") != std::string::npos);
  CHECK(lines[1].find("/dev/full") != std::string::npos);
  CHECK(lines[2].find("info: two") != std::string::npos);
}

TEST_CASE("lines of several threads stay whole", "[base]") {
  constexpr int kThreads = 4, kLines = 200;
  CapturedStderr captured;
  {
    Log log(LogLevel::kInfo);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < kLines; ++i) log.info("thread " + std::to_string(t) + " says this and no less");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto lines = lines_of(captured.text());
  REQUIRE(lines.size() == kThreads * kLines);
  int num_whole = 0;
  for (const std::string& line : lines)
    num_whole += fits(line, "[##:##:##] info: thread # says this and no less") ? 1 : 0;
  CHECK(num_whole == kThreads * kLines);
}

TEST_CASE("hooks surround each line on stderr, and only those", "[base]") {
  CapturedStderr captured;
  {
    Log log(LogLevel::kInfo);
    log.set_line_hooks([](void*) { std::fputs("<", stderr); }, [](void*) { std::fputs(">", stderr); }, nullptr);
    log.debug("hidden");
    log.info("shown");
    log.set_line_hooks(nullptr, nullptr, nullptr);
    log.info("bare");
  }
  const std::string text = captured.text();
  CHECK(fits(text, "<[##:##:##] info: shown\n>[##:##:##] info: bare\n"));
}

}  // namespace
}  // namespace mgtrain
