#include "comm/rank_team.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace mgtrain {
namespace {

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "unknown exception";
  }
}

/// What is known of the ranks while they run.
class Progress {
 public:
  explicit Progress(CommWorld& world) : world_(world), ended_(static_cast<size_t>(world.size()), false) {}

  void failed(int rank, std::exception_ptr error) {
    // The world knows who was first: a rank that merely stopped for another one comes after it.
    world_.abort(rank, what_of(error));
    const std::lock_guard lock(mutex_);
    if (world_.failure()->rank == rank) cause_ = error;
    if (!any_) any_ = std::move(error);
    changed_.notify_all();
  }

  void ended(int rank) {
    const std::lock_guard lock(mutex_);
    ended_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

  /// Until all have ended; false if some have not `grace` after a failure.
  bool wait(std::chrono::milliseconds grace) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return all_ended() || any_ != nullptr; });
    return changed_.wait_for(lock, grace, [this] { return all_ended(); });
  }

  /// The error that made the others stop; if it never came back from its rank, what another one says of it.
  std::exception_ptr cause() {
    const std::lock_guard lock(mutex_);
    return cause_ ? cause_ : any_;
  }

  std::vector<int> running() {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (size_t rank = 0; rank < ended_.size(); ++rank)
      if (!ended_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

 private:
  [[nodiscard]] bool all_ended() const {
    for (const bool ended : ended_)
      if (!ended) return false;
    return true;
  }

  CommWorld& world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
  std::exception_ptr cause_, any_;
};

}  // namespace

void run_ranks(CommWorld& world, const std::function<void(int rank)>& work, std::chrono::milliseconds grace,
               const StuckRanks& stuck) {
  Progress progress(world);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        progress.failed(rank, std::current_exception());
      }
      progress.ended(rank);
    });
  }
  if (!progress.wait(grace)) {
    stuck(progress.cause(), progress.running());
    std::abort();  // stuck() returned
  }
  for (std::thread& thread : threads) thread.join();
  if (const std::exception_ptr cause = progress.cause()) std::rethrow_exception(cause);
}

}  // namespace mgtrain
