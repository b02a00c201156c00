#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr char kPattern[] = "[%H:%M:%S] %^%l:%$ %v";
constexpr char kFilePattern[] = "[%Y-%m-%d %H:%M:%S] %l: %v";

// Errors are shown at every level: a run that fails silently cannot be helped.
spdlog::level::level_enum stderr_threshold(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
    case LogLevel::kOff:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

bool stderr_takes_colour() {
  // no-color.org: the variable counts when present and not empty.
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return isatty(STDERR_FILENO) == 1;
}

// stderr between two hooks, all three under one lock, so that lines and progress bar never mix.
class HookedStderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  HookedStderrSink() : stderr_(stderr_takes_colour() ? spdlog::color_mode::always : spdlog::color_mode::never) {}

  void set_hooks(void (*before)(void*), void (*after)(void*), void* context) {
    const std::lock_guard lock(mutex_);
    before_ = before;
    after_ = after;
    context_ = context;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (before_ != nullptr) before_(context_);
    stderr_.log(message);
    stderr_.flush();
    if (after_ != nullptr) after_(context_);
  }
  void flush_() override { stderr_.flush(); }
  void set_pattern_(const std::string& pattern) override { stderr_.set_pattern(pattern); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    stderr_.set_formatter(std::move(formatter));
  }

 private:
  spdlog::sinks::ansicolor_stderr_sink_st stderr_;
  void (*before_)(void*) = nullptr;
  void (*after_)(void*) = nullptr;
  void* context_ = nullptr;
};

}  // namespace

struct Log::Sinks {
  std::shared_ptr<HookedStderrSink> to_stderr = std::make_shared<HookedStderrSink>();
  // Takes further sinks under its lock while other threads log.
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all = std::make_shared<spdlog::sinks::dist_sink_mt>();
  spdlog::logger logger{"mgtrain", all};
  std::atomic<bool> complained{false};

  void write(spdlog::level::level_enum level, std::string_view text) {
    logger.log(level, spdlog::string_view_t(text.data(), text.size()));
  }
};

Log::Log(LogLevel level) : sinks_(std::make_unique<Sinks>()) {
  sinks_->to_stderr->set_pattern(kPattern);
  sinks_->to_stderr->set_level(stderr_threshold(level));
  sinks_->all->add_sink(sinks_->to_stderr);
  sinks_->logger.set_level(spdlog::level::debug);
  // A log has few lines; each is passed on at once so that a crash loses none.
  sinks_->logger.flush_on(spdlog::level::debug);
  // A log file that cannot be written (a full disk) is said once and never stops the run.
  sinks_->logger.set_error_handler([complained = &sinks_->complained](const std::string& problem) {
    if (!complained->exchange(true)) std::fprintf(stderr, "mgtrain: the log is incomplete: %s\n", problem.c_str());
  });
}

Log::~Log() { flush(); }

void Log::add_file(const std::filesystem::path& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string(), /*truncate=*/false);
    sink->set_level(spdlog::level::debug);
    sink->set_pattern(kFilePattern);
    sinks_->all->add_sink(std::move(sink));
  } catch (const spdlog::spdlog_ex& problem) {
    throw OutputError("cannot open the log file " + file.string() + " for appending: " + problem.what() +
                      "; check that its folder exists and may be written");
  }
}

void Log::only_errors() { sinks_->to_stderr->set_level(spdlog::level::err); }

void Log::debug(std::string_view text) { sinks_->write(spdlog::level::debug, text); }
void Log::info(std::string_view text) { sinks_->write(spdlog::level::info, text); }
void Log::warning(std::string_view text) { sinks_->write(spdlog::level::warn, text); }
void Log::error(std::string_view text) { sinks_->write(spdlog::level::err, text); }
void Log::flush() { sinks_->logger.flush(); }

void Log::set_line_hooks(void (*before)(void*), void (*after)(void*), void* context) {
  sinks_->to_stderr->set_hooks(before, after, context);
}

}  // namespace mgtrain
