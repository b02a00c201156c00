#include "comm/comm_world.h"

#include <algorithm>
#include <sstream>

namespace mgtrain {

CommWorld::CommWorld(int size, std::chrono::milliseconds timeout) : size_(size), timeout_(timeout) {
  if (size < 1) throw DeviceError("a world of " + std::to_string(size) + " ranks; it needs at least one");
  if (timeout.count() <= 0) throw DeviceError("a time-out of " + seconds_text(timeout) + "; it must be positive");
}

void CommWorld::abort(int rank, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  abort_locked(rank, reason);
}

void CommWorld::abort_locked(int rank, const std::string& reason) {
  if (!failure_) {
    failure_ = RankFailure{rank, reason};
    aborted_.store(true, std::memory_order_release);
  }
  for (WaitPlace* place : places_) place->notify_all();
}

std::optional<RankFailure> CommWorld::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CommWorld::throw_peer_failed_locked(int rank, const std::string& call) const {
  const std::string who = failure_->rank == rank ? "it" : ranks_text({failure_->rank});
  throw PeerFailed(ranks_text({rank}) + " left " + call + " because " + who + " failed: " + failure_->reason,
                   *failure_);
}

CommWorld::WaitPlace::WaitPlace(CommWorld& world) : world_(world) {
  const std::lock_guard lock(world_.mutex_);
  world_.places_.push_back(this);
}

CommWorld::WaitPlace::~WaitPlace() {
  const std::lock_guard lock(world_.mutex_);
  std::erase(world_.places_, this);
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000 << " s";
  return text.str();
}

}  // namespace mgtrain
