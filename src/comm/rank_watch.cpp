#include "comm/rank_watch.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "comm/comm_world.h"

namespace mgtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kFailure = "watch/failure";
constexpr const char* kInformed = "watch/informed";  // ranks that know of it
constexpr milliseconds kTick{50};
// For the others to learn of a failure before the store is gone.
constexpr std::chrono::seconds kNewsTime{3};
// For a main thread that is on its way out: it writes how the run ended.
constexpr std::chrono::seconds kWayOut{10};
// A signal is answered by all ranks within this, or the run ends without a checkpoint (product.md).
constexpr std::chrono::seconds kSignalPatience{10};

std::string beat_key(int rank) { return "watch/beat/" + std::to_string(rank); }
std::string done_key(int rank) { return "watch/done/" + std::to_string(rank); }

std::string failure_text(const LaunchFailure& failure) {
  return nlohmann::json{{"rank", failure.rank}, {"code", static_cast<int>(failure.code)}, {"message", failure.message}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

LaunchFailure parse_failure(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.rank = json.at("rank"),
          .code = static_cast<ExitCode>(json.at("code").get<int>()),
          .message = json.at("message")};
}

/// May be the echo of another rank's end: a broken connection, a time-out, whatever LibTorch makes of these.
bool may_be_an_echo(ExitCode code) { return code == ExitCode::kDevice || code == ExitCode::kBug; }

}  // namespace

struct RankWatch::Shared : std::enable_shared_from_this<RankWatch::Shared> {
  Shared(c10::intrusive_ptr<c10d::Store> own_store, int own_rank, RankWatchOptions given)
      : store(std::move(own_store)),
        rank(own_rank),
        world(static_cast<int>(given.cards.size())),
        options(std::move(given)),
        period(std::clamp(options.timeout / 20, milliseconds(50), milliseconds(500))),
        window(std::clamp(options.timeout / 5, milliseconds(500), milliseconds(4000))),
        grace(std::clamp(options.timeout / 5, milliseconds(1000), milliseconds(10000))),
        answered(Clock::now()) {}

  // --- what both threads and the main one know

  const c10::intrusive_ptr<c10d::Store> store;
  const int rank, world;
  const RankWatchOptions options;
  const milliseconds period, window, grace;

  std::atomic<int64_t> step{0};
  std::mutex mutex;  // guards all below; never held while the store works
  std::condition_variable changed;
  std::vector<std::string> devices;
  bool ended = false;      // the threads are to stop
  bool well = false;       // and this rank has done its part
  bool told = false;       // ... which the others know
  bool examining = false;  // somebody wants to know who does not answer
  bool look_now = false;   // ... from now on
  std::optional<LaunchFailure> failure;
  std::optional<LaunchFailure> to_publish;
  Clock::time_point failed_at;
  Clock::time_point answered;  // when the store did last
  std::optional<Clock::time_point> signalled_at;
  bool way_out = false;  // the main thread knows, and ends
  bool leaving = false;
  int64_t informed = 0;  // ranks that know of the failure

  /// "rank 1 (cuda:1 on node2)"; the machine where there are several.
  [[nodiscard]] std::string name_of_locked(int other) const {
    const auto at = static_cast<size_t>(other);
    std::string what = at < devices.size() ? devices[at] : "";
    if (count_machines(options.cards) > 1) what += (what.empty() ? "on " : " on ") + options.cards[at].host;
    return "rank " + std::to_string(other) + (what.empty() ? "" : " (" + what + ")");
  }

  void know_locked(LaunchFailure news) {
    if (failure) return;
    failure = std::move(news);
    failed_at = Clock::now();
    changed.notify_all();
  }

  // --- the thread that talks to the store, and may hang in it

  void talk() {
    uint64_t beats = 0;
    bool counted = false;
    try {
      for (;;) {
        std::optional<LaunchFailure> publish;
        bool end = false, examine = false, own_end = false;
        {
          std::unique_lock lock(mutex);
          changed.wait_for(lock, period, [this] { return ended || to_publish || look_now; });
          look_now = false;
          publish = std::exchange(to_publish, std::nullopt);
          end = ended;
          own_end = well;
          examine = examining && !failure;
        }
        if (publish) first_of(*publish);
        if (end) {
          if (own_end) store->set(done_key(rank), "");
          const std::lock_guard lock(mutex);
          told = true;
          changed.notify_all();
          return;
        }
        store->set(beat_key(rank), std::to_string(++beats) + " " + std::to_string(step.load()));
        if (store->check({kFailure})) {
          LaunchFailure news = parse_failure(store->get_to_str(kFailure));
          const std::lock_guard lock(mutex);
          know_locked(std::move(news));
        }
        look_at_neighbours();
        if (examine)
          find_who_does_not_answer();
        else
          looked.reset();
        const bool known = knows_failure();
        const int64_t others = known ? store->add(kInformed, counted ? 0 : 1) : 0;
        counted = counted || known;
        const std::lock_guard lock(mutex);
        informed = others;
        answered = Clock::now();
        changed.notify_all();
      }
    } catch (const std::exception&) {
      const std::lock_guard lock(mutex);
      told = true;
      if (!ended) {
        know_locked({.rank = 0,
                     .message = "the store that the ranks meet at is gone: " + name_of_locked(0) +
                                " or torchrun's agent, which holds it, has ended; the last step finished here is " +
                                std::to_string(step.load())});
      }
      changed.notify_all();
    }
  }

  [[nodiscard]] bool knows_failure() {
    const std::lock_guard lock(mutex);
    return failure.has_value();
  }

  /// Publishes a failure, unless another one is there already; either way it is known here then.
  void first_of(const LaunchFailure& own) {
    const std::vector<uint8_t> nothing;
    const std::string text = failure_text(own);
    const auto first = store->compareSet(kFailure, nothing, std::vector<uint8_t>(text.begin(), text.end()));
    LaunchFailure news = first.empty() ? own : parse_failure(std::string(first.begin(), first.end()));
    const std::lock_guard lock(mutex);
    know_locked(std::move(news));
  }

  [[nodiscard]] std::string last_word_of(int other) const {
    if (!store->check({beat_key(other)})) return "";
    const std::string beat = store->get_to_str(beat_key(other));
    return beat.substr(beat.find(' ') + 1);
  }

  void publish_silence(int other, const std::string& what) {
    const std::string last = last_word_of(other);
    std::string name;
    {
      const std::lock_guard lock(mutex);
      name = name_of_locked(other);
    }
    first_of(
        {.rank = other, .message = name + " " + what + (last.empty() ? "" : "; its last finished step is " + last)});
  }

  /// A process of this machine that is gone without a word.
  void look_at_neighbours() {
    if (knows_failure()) return;
    const ProcessCard& own = options.cards[static_cast<size_t>(rank)];
    for (int other = 0; other < world; ++other) {
      if (other == rank || state_of(options.cards[static_cast<size_t>(other)], own) != ProcessState::kGone) continue;
      // Its last words were sent before it ended.
      if (store->check({done_key(other)}) || store->check({kFailure})) continue;
      return publish_silence(other, "ended without a word: killed, by the system if memory ran out, or crashed");
    }
  }

  /// The beats of all as they were a moment ago; of the talking thread alone.
  struct Look {
    Clock::time_point at;
    std::vector<std::string> beats;
  };
  std::optional<Look> looked;

  /// Who of the others does not answer: stopped on this machine, or silent on another one.
  void find_who_does_not_answer() {
    const ProcessCard& own = options.cards[static_cast<size_t>(rank)];
    for (int other = 0; other < world; ++other) {
      if (other != rank && state_of(options.cards[static_cast<size_t>(other)], own) == ProcessState::kStopped)
        return publish_silence(other, "is stopped (SIGSTOP) and did not answer");
    }
    // Beats of this rank go on meanwhile: others may be looking at it.
    if (!looked) looked = Look{Clock::now(), beats()};
    if (Clock::now() - looked->at < window / 2) return;
    const std::vector<std::string> before = looked->beats, after = beats();
    looked.reset();
    for (int other = 0; other < world; ++other) {
      const auto at = static_cast<size_t>(other);
      if (other == rank || before[at] != after[at] || store->check({done_key(other)})) continue;
      if (store->check({kFailure})) return;
      return publish_silence(other, "does not answer any more: its process has ended or hangs, or its machine is gone");
    }
  }

  [[nodiscard]] std::vector<std::string> beats() const {
    std::vector<std::string> all;
    for (int other = 0; other < world; ++other)
      all.push_back(store->check({beat_key(other)}) ? store->get_to_str(beat_key(other)) : "");
    return all;
  }

  // --- the thread that never waits for anybody

  void guard() {
    std::unique_lock lock(mutex);
    while (!ended) {
      changed.wait_for(lock, kTick);
      if (ended) return;
      const Clock::time_point now = Clock::now();
      // A quarter over --timeout: whoever waits in a call has noticed by then.
      if (!failure && now - answered > options.timeout + options.timeout / 4) {
        know_locked({.rank = 0,
                     .message = name_of_locked(0) +
                                " or torchrun's agent, which holds the store that the ranks meet at, does "
                                "not answer: it is stopped, or its machine is gone"});
        failed_at = now - grace;
      }
      if (options.stop != nullptr && options.stop() != 0 && !signalled_at) signalled_at = now;
      if (signalled_at && !failure && now - *signalled_at > kSignalPatience) examining = true;
      if (failure && now - failed_at > (way_out ? kWayOut : grace) && !leaving) {
        leaving = true;
        const LaunchFailure known = *failure;
        lock.unlock();
        options.leave(known);
        lock.lock();
      }
    }
  }
};

RankWatch::RankWatch(c10::intrusive_ptr<c10d::Store> store, int rank, RankWatchOptions options)
    : shared_(std::make_shared<Shared>(std::move(store), rank, std::move(options))) {
  std::thread([shared = shared_] { shared->talk(); }).detach();
  std::thread([shared = shared_] { shared->guard(); }).detach();
}

RankWatch::~RankWatch() {
  std::unique_lock lock(shared_->mutex);
  shared_->ended = true;
  shared_->changed.notify_all();
  // The store may hang; what is left behind then holds nothing but its own things.
  shared_->changed.wait_for(lock, shared_->grace, [this] { return shared_->told; });
}

void RankWatch::set_devices(std::vector<std::string> labels) {
  const std::lock_guard lock(shared_->mutex);
  shared_->devices = std::move(labels);
}

std::optional<LaunchFailure> RankWatch::known_failure() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failure;
}

void RankWatch::at_step(int64_t step) { shared_->step.store(step); }

LaunchFailure RankWatch::explain(ExitCode code, const std::string& message) {
  Shared& shared = *shared_;
  const LaunchFailure own{.rank = shared.rank, .code = code, .message = message};
  std::unique_lock lock(shared.mutex);
  const auto known = [&] { return shared.failure.has_value(); };
  if (!known() && may_be_an_echo(code)) {
    shared.examining = shared.look_now = true;
    shared.changed.notify_all();
    shared.changed.wait_for(lock, shared.window, known);
  }
  if (!known()) {
    shared.to_publish = own;
    shared.changed.notify_all();
    shared.changed.wait_for(lock, shared.window, known);
  }
  shared.know_locked(own);  // the store does not answer
  shared.way_out = true;
  return *shared.failure;
}

void RankWatch::let_others_know() {
  Shared& shared = *shared_;
  if (!shared.options.holds_store) return;
  std::unique_lock lock(shared.mutex);
  const bool other = shared.failure && shared.failure->rank != shared.rank;  // which has nothing to learn
  shared.changed.wait_for(lock, kNewsTime,
                          [&] { return shared.told || shared.informed >= shared.world - (other ? 1 : 0); });
}

void RankWatch::finish() {
  std::unique_lock lock(shared_->mutex);
  shared_->well = true;
  shared_->ended = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, shared_->grace, [this] { return shared_->told; });
}

}  // namespace mgtrain
