#include "comm/mailbox.h"

namespace mgtrain {

Mailbox::Mailbox(std::shared_ptr<CommWorld> world, std::string name, std::vector<int> ranks)
    : world_(std::move(world)), name_(std::move(name)), ranks_(std::move(ranks)), place_(*world_) {}

std::string Mailbox::lane_text(const char* what, const Lane& lane) const {
  return std::string(what) + " from " + ranks_text({world_rank(lane.from)}) + " to " +
         ranks_text({world_rank(lane.to)}) + " (tag " + std::to_string(lane.tag) + ") on group " + name_;
}

void Mailbox::send(const Lane& lane, std::shared_ptr<void> message) {
  const std::lock_guard lock(world_->mutex());
  if (world_->aborted_locked()) world_->throw_peer_failed_locked(world_rank(lane.from), lane_text("send", lane));
  Queue& queue = queues_[lane];
  queue.messages.emplace(queue.next_sent++, std::move(message));
  place_.notify_all();
}

Mailbox::Receipt Mailbox::expect(const Lane& lane) {
  const std::lock_guard lock(world_->mutex());
  if (world_->aborted_locked()) world_->throw_peer_failed_locked(world_rank(lane.to), lane_text("recv", lane));
  return {lane, queues_[lane].next_expected++};
}

bool Mailbox::has_come(const Receipt& receipt) const {
  const std::lock_guard lock(world_->mutex());
  const auto queue = queues_.find(receipt.lane);
  return queue != queues_.end() && queue->second.messages.contains(receipt.number);
}

std::shared_ptr<void> Mailbox::take(const Receipt& receipt, std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) timeout = world_->timeout();
  const auto deadline = CommWorld::Clock::now() + timeout;
  const int me = world_rank(receipt.lane.to);
  std::unique_lock lock(world_->mutex());
  auto& messages = queues_[receipt.lane].messages;
  const bool in_time =
      place_.wait(lock, deadline, [&] { return messages.contains(receipt.number) || world_->aborted_locked(); });
  auto message = messages.extract(receipt.number);
  if (!message.empty()) return std::move(message.mapped());
  const std::string call = lane_text("recv", receipt.lane);
  if (in_time) world_->throw_peer_failed_locked(me, call);
  const std::string text = "time-out after " + seconds_text(timeout) + " in " + call + ": nothing came from " +
                           ranks_text({world_rank(receipt.lane.from)});
  world_->abort_locked(me, text);
  throw MeetingTimeout(text);
}

}  // namespace mgtrain
