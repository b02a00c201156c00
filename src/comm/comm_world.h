// The ranks of one process that work together, and the one failure that ends them all: whatever waits for a peer waits
// here, so that abort() frees every waiting rank of every group. After an abort the world is dead; build a new one.
// Any thread. Torch-free.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace mgtrain {

struct RankFailure {
  int rank;            // who failed first; for a time-out, who noticed
  std::string reason;  // what it threw
};

/// This rank is well, but another one failed: says who, and why. Of several errors the other one is the cause.
struct PeerFailed : DeviceError {
  PeerFailed(const std::string& message, RankFailure cause) : DeviceError(message), failure(std::move(cause)) {}
  RankFailure failure;
};

/// Ranks did not come to a call in time; names the call, its group and the missing ranks.
struct MeetingTimeout : DeviceError {
  explicit MeetingTimeout(const std::string& message) : DeviceError(message) {}
};

/// The ranks of a group made calls that do not fit; thrown alike on all of them.
struct CallMismatch : DeviceError {
  explicit CallMismatch(const std::string& message) : DeviceError(message) {}
};

class CommWorld {
 public:
  using Clock = std::chrono::steady_clock;

  CommWorld(int size, std::chrono::milliseconds timeout);
  CommWorld(const CommWorld&) = delete;
  CommWorld& operator=(const CommWorld&) = delete;

  [[nodiscard]] int size() const { return size_; }
  /// How long a call waits for its peers where the call itself does not say.
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  /// Rank `rank` cannot go on: every rank that waits, and every later call, gets PeerFailed. The first reason stays.
  void abort(int rank, const std::string& reason) noexcept;
  [[nodiscard]] bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  /// The first failure, or nothing.
  [[nodiscard]] std::optional<RankFailure> failure() const;

  // --- for what waits: meeting points and mailboxes

  /// Guards the state of all of them; held for a few instructions only, never while data moves.
  [[nodiscard]] std::mutex& mutex() const { return mutex_; }

  /// Something to wait at, known to its world so that abort() reaches it. The world must outlive it.
  class WaitPlace {
   public:
    explicit WaitPlace(CommWorld& world);
    ~WaitPlace();
    WaitPlace(const WaitPlace&) = delete;
    WaitPlace& operator=(const WaitPlace&) = delete;

    void notify_all() { changed_.notify_all(); }
    /// Waits until `ready`; false at the deadline. `lock` holds the world's mutex, under which `ready` is asked.
    bool wait(std::unique_lock<std::mutex>& lock, Clock::time_point deadline, const std::function<bool()>& ready) {
      return changed_.wait_until(lock, deadline, ready);
    }

   private:
    CommWorld& world_;
    std::condition_variable changed_;
  };

  /// The same as aborted(), failure() and abort() for who holds the mutex.
  [[nodiscard]] bool aborted_locked() const { return failure_.has_value(); }
  void abort_locked(int rank, const std::string& reason);
  /// Throws PeerFailed: "rank 2 left all_reduce on group data because rank 0 failed: ...".
  [[noreturn]] void throw_peer_failed_locked(int rank, const std::string& call) const;

 private:
  const int size_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::atomic<bool> aborted_ = false;
  std::optional<RankFailure> failure_;
  std::vector<WaitPlace*> places_;
};

/// "ranks 0, 2", "rank 3".
std::string ranks_text(const std::vector<int>& ranks);
/// "600 s", "0.05 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace mgtrain
