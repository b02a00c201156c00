#include "comm/rendezvous_store.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/store_socket.h"

namespace mgtrain {
namespace {

using std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// How often the caller looks at the stop signal, and the worker at its end.
constexpr milliseconds kSlice{100};
// For a TCPStore to connect to a port that has just been seen to accept.
constexpr milliseconds kConnect{5000};
// What the worker gets over the time-out to say who is missing, before it is taken for stuck.
constexpr milliseconds kGrace{1000};

std::string seconds_text(milliseconds time) {
  const auto ms = time.count();
  return std::to_string(ms / 1000) + (ms % 1000 == 0 ? "" : "." + std::to_string(ms % 1000 / 100)) + " s";
}

/// The time left of --timeout, shared by the caller and its worker.
class Patience {
 public:
  explicit Patience(milliseconds timeout) : timeout_(timeout), end_(std::chrono::steady_clock::now() + timeout) {}

  [[nodiscard]] bool over(milliseconds grace = milliseconds(0)) const {
    return std::chrono::steady_clock::now() >= end_ + grace;
  }
  /// "0.5 s (--timeout)"
  [[nodiscard]] std::string text() const { return seconds_text(timeout_) + " (--timeout)"; }

  void give_up() { given_up_ = true; }
  /// Ends a worker whose caller is gone; nobody sees the exception.
  void check_caller() const {
    if (given_up_) throw DeviceError("nobody waits for this any more");
  }

 private:
  milliseconds timeout_;
  std::chrono::steady_clock::time_point end_;
  std::atomic<bool> given_up_{false};
};

/// Sleeps between two looks: shortly at first, then ten times a second.
class Pause {
 public:
  void sleep() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, kSlice);
  }

 private:
  milliseconds next_{1};
};

/// What `work` returns or throws, from a thread of its own. Calls of a TCPStore wait without limit for an answer: where
/// its holder is frozen, or another program listens at the port, that thread is left behind blocked, and the caller
/// goes on with the error it is after all.
StorePtr in_bounded_time(const Launch& launch, int (*stop)(), const std::shared_ptr<Patience>& patience,
                         std::function<StorePtr()> work) {
  std::packaged_task<StorePtr()> task(std::move(work));
  std::future<StorePtr> done = task.get_future();
  std::thread(std::move(task)).detach();
  const auto give_up = [&] {
    patience->give_up();
    done.wait_for(kGrace / 2);  // what can end does so before the process may
  };
  while (done.wait_for(kSlice) != std::future_status::ready) {
    if (const int signal = stop == nullptr ? 0 : stop(); signal != 0) {
      give_up();
      throw Error(exit_code_of_signal(signal), std::string(signal == SIGINT ? "SIGINT" : "SIGTERM") +
                                                   " while waiting for the other ranks: nothing to save");
    }
    if (patience->over(kGrace)) {
      give_up();
      throw DeviceError("rank " + std::to_string(launch.rank) + " got no answer from " +
                        address_text(launch.store_host, launch.store_port) + " within " + patience->text() +
                        ": the process that holds the store is stopped, or it is another program that listens there; "
                        "choose another port, on all ranks, if that is so");
    }
  }
  return done.get();
}

// --- the store's two ends

c10d::TCPStoreOptions store_options(const Launch& launch) {
  c10d::TCPStoreOptions options;
  options.port = launch.store_port;
  options.numWorkers = static_cast<size_t>(launch.world_size);
  options.waitWorkers = false;  // that wait names nobody and cannot be interrupted
  options.timeout = kConnect;
  return options;
}

/// Rank 0's socket. LibTorch itself would listen on all addresses: it is handed one bound to the address named.
Socket listen_for(const Launch& launch, const RendezvousOptions& options) {
  if (launch.num_nodes < 2 || !is_loopback(launch.store_host)) {
    return listen_at(launch.store_host, launch.store_port, ListenFor::kNamedAddress);
  }
  if (options.warn) {
    options.warn(launch.store_host +
                 " is a loopback address on this machine, where ranks on other machines would not reach it: rank 0 "
                 "listens on all addresses, port " +
                 std::to_string(launch.store_port));
  }
  return listen_at(launch.store_host, launch.store_port, ListenFor::kAllAddresses);
}

StorePtr hold_store(const Launch& launch, Socket& listening) {
  c10d::TCPStoreOptions options = store_options(launch);
  options.isServer = true;
  options.masterListenFd = listening.release();  // the store's from here on
  return c10::make_intrusive<c10d::TCPStore>(launch.store_host, options);
}

/// The end of a rank that holds no store: tries until somebody listens.
StorePtr reach_store(const Launch& launch, const Patience& patience) {
  std::string problem;
  Pause pause;
  do {
    patience.check_caller();
    if (somebody_listens(launch.store_host, launch.store_port, kSlice, problem)) {
      try {
        return c10::make_intrusive<c10d::TCPStore>(launch.store_host, store_options(launch));
      } catch (const c10::Error& error) {
        problem = error.what_without_backtrace();
      }
    }
    pause.sleep();
  } while (!patience.over());
  throw DeviceError("rank " + std::to_string(launch.rank) + " could not reach " +
                    (launch.agent_store ? "torchrun's store" : "rank 0") + " at " +
                    address_text(launch.store_host, launch.store_port) + " within " + patience.text() + ": " + problem +
                    "; see that " + (launch.agent_store ? "torchrun runs" : "rank 0 was started") +
                    " and that this machine reaches it");
}

// --- meeting there

const std::string kRestarted = "restarted";

std::string here_key(int rank) { return "here/" + std::to_string(rank); }

std::vector<std::string> keys_of_all(const Launch& launch, const char* prefix) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < launch.world_size; ++rank) keys.push_back(prefix + std::to_string(rank));
  return keys;
}

/// "ranks 1 and 3", at most ten of them by number.
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kShown = 10;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t shown = std::min(ranks.size(), kShown);
  for (size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return shown < ranks.size() ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
}

/// The ranks of one attempt, counted under keys of their own.
///
/// torchrun's store outlives the ranks that it restarts, so what stands in it may be left from an attempt before. Its
/// restart count does not tell attempts apart: a machine whose ranks are restarted because another's failed does not
/// count that one. So rank 0 opens each attempt by counting up `attempts`, every rank counts itself into the newest
/// one, and a rank that finds itself counted there already, by the process that it replaces, waits for the next.
class Meeting {
 public:
  Meeting(StorePtr store, const Launch& launch, const Patience& patience)
      : base_(c10::make_intrusive<c10d::PrefixStore>("mgtrain/" + launch.run_id, std::move(store))),
        launch_(launch),
        patience_(patience) {}

  [[nodiscard]] StorePtr open_as_rank_0() const {
    const int64_t attempt = base_->add("attempts", 1);
    const StorePtr store = of_attempt(attempt);
    store->set("world", std::to_string(launch_.world_size));
    tell_restart(store);
    store->add(here_key(0), 1);
    const std::vector<std::string> all = keys_of_all(launch_, "here/");
    for (Pause pause; !store->check(all); pause.sleep()) {
      if (store->check({"refused"})) throw ConfigError(store->get_to_str("refused"));
      keep_waiting(*store);
    }
    store->set("everyone", "here");
    return keys_for_run(store);
  }

  [[nodiscard]] StorePtr join() const {
    for (int64_t left_behind = 0;;) {
      const int64_t attempt = newest_after(left_behind);
      const StorePtr store = of_attempt(attempt);
      for (Pause pause; !store->check({"world"}); pause.sleep()) keep_waiting(*store);
      if (count_in(store) && everyone_comes(*store, attempt)) return keys_for_run(store);
      left_behind = attempt;
    }
  }

 private:
  [[nodiscard]] StorePtr of_attempt(int64_t attempt) const {
    return c10::make_intrusive<c10d::PrefixStore>(std::to_string(attempt), base_);
  }
  static StorePtr keys_for_run(const StorePtr& store) { return c10::make_intrusive<c10d::PrefixStore>("run", store); }

  void tell_restart(const StorePtr& store) const {
    if (launch_.restart_count > 0) keys_for_run(store)->set(kRestarted, "yes");
  }

  [[nodiscard]] int64_t newest() const { return std::stoll(base_->get_to_str("attempts")); }

  /// The number of the newest attempt, once there is one after `attempt`.
  [[nodiscard]] int64_t newest_after(int64_t attempt) const {
    const StorePtr next = of_attempt(attempt + 1);
    for (Pause pause; !next->check({"world"}); pause.sleep()) {
      patience_.check_caller();
      if (patience_.over()) throw DeviceError(waited() + missing_text({0}));
    }
    return newest();
  }

  /// Counts this rank in; false where the attempt is one that a former process of this rank took part in.
  [[nodiscard]] bool count_in(const StorePtr& store) const {
    const std::string world = store->get_to_str("world");
    if (world != std::to_string(launch_.world_size)) {
      if (launch_.agent_store) return false;
      refuse(*store, "rank " + std::to_string(launch_.rank) + " was started for a world of " +
                         std::to_string(launch_.world_size) + " ranks, rank 0 for " + world +
                         "; give every rank the same --world");
    }
    tell_restart(store);
    if (store->add(here_key(launch_.rank), 1) == 1) return true;
    if (launch_.agent_store) return false;
    const std::string rank = std::to_string(launch_.rank);
    refuse(*store,
           "rank " + rank + " came twice; give every process another --rank, and where one died, start all anew");
  }

  /// Tells rank 0 and those that look meanwhile, and throws.
  [[noreturn]] static void refuse(c10d::Store& store, const std::string& problem) {
    store.set("refused", problem);
    throw ConfigError(problem);
  }

  /// Waits until everyone is counted in; false if a newer attempt was opened meanwhile.
  [[nodiscard]] bool everyone_comes(c10d::Store& store, int64_t attempt) const {
    for (Pause pause; !store.check({"everyone"}); pause.sleep()) {
      if (launch_.agent_store && newest() != attempt) return false;
      if (!launch_.agent_store && store.check({"refused"})) throw ConfigError(store.get_to_str("refused"));
      keep_waiting(store);
    }
    return true;
  }

  void keep_waiting(c10d::Store& store) const {
    patience_.check_caller();
    if (!patience_.over()) return;
    std::vector<int> missing;
    for (int rank = 0; rank < launch_.world_size; ++rank) {
      if (rank != launch_.rank && !store.check({here_key(rank)})) missing.push_back(rank);
    }
    if (!missing.empty()) throw DeviceError(waited() + missing_text(missing));
    if (launch_.rank != 0) throw DeviceError(waited() + "all came, but rank 0 did not go on; see what it said");
  }

  [[nodiscard]] std::string waited() const {
    return "rank " + std::to_string(launch_.rank) + " waited " + patience_.text() + " for the others: ";
  }

  [[nodiscard]] std::string missing_text(const std::vector<int>& missing) const {
    return ranks_text(missing) + " of " + std::to_string(launch_.world_size) +
           " did not come; see that each was started and reaches " +
           address_text(launch_.store_host, launch_.store_port);
  }

  StorePtr base_;
  const Launch& launch_;
  const Patience& patience_;
};

}  // namespace

StorePtr join_rendezvous(const Launch& launch, const RendezvousOptions& options) {
  const auto patience = std::make_shared<Patience>(options.timeout);
  std::shared_ptr<Socket> listening;
  if (launch.rank == 0 && !launch.agent_store) listening = std::make_shared<Socket>(listen_for(launch, options));
  return in_bounded_time(launch, options.stop, patience, [launch, listening, patience, timeout = options.timeout] {
    try {
      const StorePtr tcp = listening ? hold_store(launch, *listening) : reach_store(launch, *patience);
      const Meeting meeting(tcp, launch, *patience);
      StorePtr store = launch.rank == 0 ? meeting.open_as_rank_0() : meeting.join();
      store->setTimeout(timeout);
      return store;
    } catch (const c10::Error& error) {
      throw DeviceError("rank " + std::to_string(launch.rank) + " lost the store at " +
                        address_text(launch.store_host, launch.store_port) + ": " + error.what_without_backtrace() +
                        "; " + (launch.agent_store ? "torchrun ended, or ends this run" : "see what rank 0 said"));
    }
  });
}

bool restarted(c10d::Store& store) { return store.check({kRestarted}); }

void leave_rendezvous(StorePtr store, const Launch& launch, milliseconds limit) noexcept {
  try {
    const auto patience = std::make_shared<Patience>(limit);
    (void)in_bounded_time(launch, nullptr, patience, [store = std::move(store), launch, patience]() mutable {
      store->add("left/" + std::to_string(launch.rank), 1);
      const bool holds = launch.rank == 0 && !launch.agent_store;
      const std::vector<std::string> all = keys_of_all(launch, "left/");
      for (Pause pause; holds && !store->check(all) && !patience->over(); pause.sleep()) {
      }
      return std::move(store);  // for the caller's thread to close, not for one that outlives the call
    });
  } catch (const std::exception&) {
    // Somebody ended without a word, or rank 0 did: there is nothing left to keep the store for.
  }
}

}  // namespace mgtrain
