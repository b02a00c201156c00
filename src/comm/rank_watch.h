// Processes of one run that look after each other through their store: each says now and then that it is there, the
// first failure of any is known to all, and a process whose main thread does not come back from a dead call is ended.
// Threads of its own; the store it is given is used by nobody else.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "base/exit_code.h"
#include "base/signals.h"
#include "comm/process_card.h"

namespace mgtrain {

/// Who failed first, and how the run ends for it.
struct LaunchFailure {
  int rank = 0;
  ExitCode code = ExitCode::kDevice;
  std::string message;
};

struct RankWatchOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // --timeout
  std::vector<ProcessCard> cards;                                 // of all ranks
  bool holds_store = false;                                       // the store goes with this process
  int (*stop)() = stop_signal;
  /// Ends the process with what is known, from a thread of the watch; must not return. Called where the main thread
  /// does not end by itself soon after a failure.
  std::function<void(const LaunchFailure&)> leave;
};

class RankWatch {
 public:
  /// `store`: a connection of its own, as a store's calls lock each other out.
  RankWatch(c10::intrusive_ptr<c10d::Store> store, int rank, RankWatchOptions options);
  /// As finish(), without telling the others that all is well.
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// What all ranks compute on, for messages; once it is known.
  void set_devices(std::vector<std::string> labels);
  /// The last finished step, for what others say of this rank. Any thread.
  void at_step(int64_t step);

  /// This rank cannot go on: who failed first? An error that may come of another rank's end (exit codes 7 and 70) waits
  /// a moment for the news of that; any other is news itself. From here on the process has a short time to end.
  LaunchFailure explain(ExitCode code, const std::string& message);
  /// The first failure of any rank, once one is known here.
  [[nodiscard]] std::optional<LaunchFailure> known_failure() const;
  /// After a failure, before the process ends: where the store goes with it, until the others know who failed, or for
  /// three seconds.
  void let_others_know();

  /// This rank has done its part: the end of its process is no failure.
  void finish();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // threads that hang in the store outlive this object
};

}  // namespace mgtrain
