#include "comm/meeting_point.h"

#include <algorithm>

namespace mgtrain {

struct MeetingPoint::State {
  State(uint64_t call_number, size_t size)
      : number(call_number), calls(size), payloads(size), came(size, false), left(size, false) {}

  const uint64_t number;
  // Written by each rank before it has come, read-only once all have.
  std::vector<CallDescription> calls;
  std::vector<std::shared_ptr<void>> payloads;
  // Under the world's mutex.
  std::vector<bool> came, left;
  size_t num_came = 0, num_left = 0;
  std::chrono::milliseconds timeout{0};
  int failed = -1;  // the group rank that failed in its share of the work
};

MeetingPoint::MeetingPoint(std::shared_ptr<CommWorld> world, std::string name, std::vector<int> ranks)
    : world_(std::move(world)), name_(std::move(name)), ranks_(std::move(ranks)), place_(*world_) {
  open_ = std::make_shared<State>(number_, ranks_.size());
}

MeetingPoint::Meeting MeetingPoint::meet(int group_rank, CallDescription call, std::shared_ptr<void> payload,
                                         std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) timeout = world_->timeout();
  const auto deadline = CommWorld::Clock::now() + timeout;
  const auto me = static_cast<size_t>(group_rank);
  const int world_rank = ranks_.at(me);
  std::unique_lock lock(world_->mutex());
  const std::shared_ptr<State> state = open_;
  const std::string operation = call.operation;
  if (world_->aborted_locked()) world_->throw_peer_failed_locked(world_rank, call_text(*state, operation));
  if (state->came[me]) {
    throw CallMismatch(call_text(*state, operation) + ": " + ranks_text({world_rank}) +
                       " takes part twice; each rank may make one call at a time");
  }
  state->calls[me] = std::move(call);
  state->payloads[me] = std::move(payload);
  state->came[me] = true;
  state->timeout = std::max(state->timeout, timeout);
  if (++state->num_came == ranks_.size()) {
    open_ = std::make_shared<State>(++number_, ranks_.size());
    place_.notify_all();
  } else {
    const auto complete = [&] { return state->num_came == ranks_.size(); };
    const bool in_time = place_.wait(lock, deadline, [&] { return complete() || world_->aborted_locked(); });
    if (!complete()) {
      if (in_time) world_->throw_peer_failed_locked(world_rank, call_text(*state, operation));
      time_out_locked(group_rank, *state, state->came, "missing");
    }
  }
  lock.unlock();

  const std::string mismatch = mismatch_text(*state);
  if (!mismatch.empty()) throw CallMismatch(mismatch);
  return Meeting(*this, state, group_rank, deadline);
}

void MeetingPoint::time_out_locked(int group_rank, const State& state, const std::vector<bool>& there,
                                   const char* what) {
  const size_t me = static_cast<size_t>(group_rank);
  const std::string message = "time-out after " + seconds_text(state.timeout) + " in " +
                              call_text(state, state.calls[me].operation) + ": " + what + " " +
                              ranks_text(ranks_without(there)) + " (seen by " + ranks_text({ranks_[me]}) + ")";
  world_->abort_locked(ranks_[me], message);
  throw MeetingTimeout(message);
}

std::vector<int> MeetingPoint::ranks_without(const std::vector<bool>& there) const {
  std::vector<int> missing;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!there[i]) missing.push_back(ranks_[i]);
  }
  return missing;
}

std::string MeetingPoint::call_text(const State& state, const std::string& operation) const {
  return operation + " on group " + name_ + " (" + ranks_text(ranks_) + "), call " + std::to_string(state.number);
}

std::string MeetingPoint::mismatch_text(const State& state) const {
  const auto& calls = state.calls;
  const auto here = [&] { return call_text(state, calls[0].operation); };
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].refusal.empty()) {
      return call_text(state, calls[i].operation) + ": " + ranks_text({ranks_[i]}) +
             " cannot take part: " + calls[i].refusal;
    }
  }
  struct Field {
    const char* name;
    std::string CallDescription::*value;
  };
  static constexpr Field fields[] = {
      {"operation", &CallDescription::operation}, {"device type", &CallDescription::device_type},
      {"dtype", &CallDescription::dtype},         {"shape", &CallDescription::shape},
      {"layout", &CallDescription::layout},       {"root", &CallDescription::root}};
  for (const Field& field : fields) {
    const auto differs = [&](const CallDescription& call) { return call.*field.value != calls[0].*field.value; };
    if (std::none_of(calls.begin(), calls.end(), differs)) continue;
    std::string text = here() + ": the ranks differ in the " + field.name + ":";
    for (size_t i = 0; i < calls.size(); ++i) {
      text += std::string(i == 0 ? " " : ", ") + ranks_text({ranks_[i]}) + " has " + calls[i].*field.value;
    }
    return text + "; every rank of a group must make the same calls in the same order";
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    for (size_t k = i + 1; k < calls.size(); ++k) {
      if (!calls[i].device.empty() && calls[i].device == calls[k].device) {
        return here() + ": " + ranks_text({ranks_[i], ranks_[k]}) + " are both on " + calls[i].device +
               "; each rank needs a device of its own";
      }
    }
  }
  return {};
}

MeetingPoint::Meeting::Meeting(MeetingPoint& point, std::shared_ptr<State> state, int group_rank,
                               CommWorld::Clock::time_point deadline)
    : point_(&point), state_(std::move(state)), group_rank_(group_rank), deadline_(deadline) {}

uint64_t MeetingPoint::Meeting::number() const { return state_->number; }

void* MeetingPoint::Meeting::payload(int group_rank) const {
  return state_->payloads.at(static_cast<size_t>(group_rank)).get();
}

void MeetingPoint::Meeting::leave() {
  const auto me = static_cast<size_t>(group_rank_);
  const std::shared_ptr<State> state = std::move(state_);
  std::unique_lock lock(point_->world_->mutex());
  state->left[me] = true;
  if (++state->num_left == state->left.size()) {
    point_->place_.notify_all();
  } else if (!point_->place_.wait(lock, deadline_, [&] { return state->num_left == state->left.size(); })) {
    point_->time_out_locked(group_rank_, *state, state->left, "still at work:");
  }
  if (state->failed < 0) return;
  // That rank is unwinding; its world hears from it why.
  CommWorld& world = *point_->world_;
  const std::string call = point_->call_text(*state, state->calls[me].operation);
  const int failed = point_->ranks_[static_cast<size_t>(state->failed)];
  if (!point_->place_.wait(lock, deadline_, [&] { return world.aborted_locked(); })) {
    world.abort_locked(failed, "it failed in its share of " + call + " and did not say why");
  }
  world.throw_peer_failed_locked(point_->ranks_[me], call);
}

MeetingPoint::Meeting::~Meeting() {
  if (!state_) return;
  const std::lock_guard lock(point_->world_->mutex());
  state_->left[static_cast<size_t>(group_rank_)] = true;
  if (state_->failed < 0) state_->failed = group_rank_;
  if (++state_->num_left == state_->left.size()) point_->place_.notify_all();
}

}  // namespace mgtrain
