// SPDX-License-Identifier: Apache-2.0
// Between the control plane and the communicators. See watch.h.
#include "comm/watch.h"

#include <algorithm>

#include "base/bytes.h"

namespace isthmus::comm {

namespace {
// Of messages about communicators that have not formed here, or have ended.
constexpr size_t kMostEarly = 64;
constexpr size_t kMostEarlyBytes = 2048;
}  // namespace

Watch::Watch(bootstrap::Link link, int32_t rank, int32_t ranks, int32_t hub_rank, const bootstrap::ControlOptions& options, TimeNs now,
             Deliver deliver, std::function<void()> wake)
    : member_(std::move(link), rank, ranks, hub_rank, options, *this, now), deliver_(std::move(deliver)), wake_(std::move(wake)) {}

void Watch::subscribe(Listener& listener, uint64_t communicator, int32_t, std::vector<int32_t> family_ranks) {
  subscribers_.push_back({.listener = &listener, .communicator = communicator, .family_ranks = std::move(family_ranks)});
  for (const auto& [family_rank, why] : dead_) {
    const auto& ranks = subscribers_.back().family_ranks;
    const auto found = std::find(ranks.begin(), ranks.end(), family_rank);
    if (found != ranks.end()) listener.on_rank_dead(static_cast<int32_t>(found - ranks.begin()), why);
  }
  std::deque<Early> early;
  early.swap(early_);
  for (Early& message : early) {
    if (message.communicator != communicator) {
      early_.push_back(std::move(message));
    } else {
      (void)pass_on(message);
    }
  }
}

void Watch::unsubscribe(Listener& listener) {
  std::erase_if(subscribers_, [&](const Subscriber& subscriber) { return subscriber.listener == &listener; });
  if (!subscribers_.empty()) return;
  {
    const std::lock_guard guard(mutex_);
    leaving_ = true;
  }
  wake_();
}

void Watch::send(const Listener& from, int32_t to, std::span<const std::byte> body) {
  const auto subscriber = std::find_if(subscribers_.begin(), subscribers_.end(), [&](const Subscriber& s) { return s.listener == &from; });
  if (subscriber == subscribers_.end()) return;
  std::vector<std::byte> message(sizeof(uint64_t) + body.size());
  Writer(message).u64(subscriber->communicator).bytes(body);
  {
    const std::lock_guard guard(mutex_);
    outgoing_.push_back({.to = subscriber->family_ranks[static_cast<size_t>(to)], .body = std::move(message)});
  }
  wake_();
}

bool Watch::poll(TimeNs now) {
  std::vector<Outgoing> outgoing;
  bool leaving = false;
  {
    const std::lock_guard guard(mutex_);
    outgoing.swap(outgoing_);
    leaving = leaving_;
  }
  for (const Outgoing& message : outgoing) (void)member_.send(message.to, message.body);  // lost if the rank is gone, as promised
  if (leaving) member_.leave();
  member_.poll(now);
  return !member_.finished();
}

template <typename Tell>
void Watch::tell_all(int32_t family_rank, Tell&& tell) {
  const std::vector<Subscriber> told = subscribers_;  // telling may end a subscription
  for (const Subscriber& subscriber : told) {
    const auto& ranks = subscriber.family_ranks;
    const auto found = std::find(ranks.begin(), ranks.end(), family_rank);
    if (found != ranks.end()) tell(*subscriber.listener, static_cast<int32_t>(found - ranks.begin()));
  }
}

void Watch::on_dead(int32_t rank, const std::string& why) {
  deliver_([&] {
    dead_.emplace_back(rank, why);
    tell_all(rank, [&](Listener& listener, int32_t own) { listener.on_rank_dead(own, why); });
  });
}

void Watch::on_message(int32_t from, std::span<const std::byte> body) {
  Reader reader(body);
  const uint64_t communicator = reader.u64();
  if (!reader.ok()) return;
  const std::span<const std::byte> rest = reader.bytes(reader.remaining());
  deliver_([&] {
    Early message{.from = from, .communicator = communicator, .body = {rest.begin(), rest.end()}};
    if (pass_on(message) || rest.size() > kMostEarlyBytes) return;
    early_.push_back(std::move(message));
    if (early_.size() > kMostEarly) early_.pop_front();
  });
}

/// True if the communicator has formed here.
bool Watch::pass_on(const Early& message) const {
  const auto subscriber =
      std::find_if(subscribers_.begin(), subscribers_.end(), [&](const Subscriber& s) { return s.communicator == message.communicator; });
  if (subscriber == subscribers_.end()) return false;
  const auto& ranks = subscriber->family_ranks;
  const auto from = std::find(ranks.begin(), ranks.end(), message.from);
  if (from != ranks.end()) subscriber->listener->on_message(static_cast<int32_t>(from - ranks.begin()), message.body);
  return true;
}

}  // namespace isthmus::comm
