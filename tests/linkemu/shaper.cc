// SPDX-License-Identifier: Apache-2.0
// The links in virtual time (see shaper.h). Every event is handled at its own time, however late poll() comes, so that lateness of the
// caller never adds up.
#include "linkemu/shaper.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace linkemu {
namespace {

using isthmus::kNever;

/// How long `bytes` take at the rate, rounded up. Never overflows for a frame (2^16 bytes) at 1 bit/s or more.
TimeNs sending_time(uint64_t bytes, uint64_t rate_bits_per_s) {
  if (rate_bits_per_s == kNoLimit) return 0;
  const uint64_t scaled = bytes * 8 * static_cast<uint64_t>(isthmus::kSecondNs);
  return static_cast<TimeNs>((scaled + rate_bits_per_s - 1) / rate_bits_per_s);
}

}  // namespace

int Shaper::add_queue() {
  queues_.emplace_back();
  return static_cast<int>(queues_.size()) - 1;
}

int Shaper::add_link(std::vector<int> path) {
  const uint64_t number = links_.size();
  least_delay_ns_ = 0;
  links_.push_back({.path = std::move(path),
                    .line = {},
                    .loss_rng = isthmus::CounterRng(seed_, 2 * number),
                    .jitter_rng = isthmus::CounterRng(seed_, 2 * number + 1),
                    .frames = {},
                    .counters = {}});
  return static_cast<int>(number);
}

void Shaper::set_queue(int index, const QueueSettings& settings, TimeNs now) {
  advance(now);
  Queue& queue = queues_[static_cast<size_t>(index)];
  const uint64_t old_rate = std::exchange(queue.settings, settings).rate_bits_per_s;
  if (queue.frames.empty() || old_rate == settings.rate_bits_per_s) return;
  // the share of the first frame that is not sent yet takes as much longer as the rate is lower
  const TimeNs whole = sending_time(queue.frames.front().frame.size(), settings.rate_bits_per_s);
  const TimeNs old_whole = std::max<TimeNs>(1, sending_time(queue.frames.front().frame.size(), old_rate));
  const double unsent = static_cast<double>(queue.done_at - now) / static_cast<double>(old_whole);
  queue.done_at = now + static_cast<TimeNs>(static_cast<double>(whole) * unsent);
  queue_events_.push({queue.done_at, order_++, index});
}

void Shaper::set_line(int link, const LineSettings& settings, TimeNs now) {
  advance(now);
  links_[static_cast<size_t>(link)].line = settings;
  least_delay_ns_ = kNever;
  for (const Link& other : links_) {
    least_delay_ns_ = std::min(least_delay_ns_, std::max<TimeNs>(0, other.line.delay_ns - other.line.jitter_ns));
  }
}

void Shaper::offer(int link, Frame frame, TimeNs now) {
  advance(now);
  links_[static_cast<size_t>(link)].counters.taken.add(frame.size());
  enter_hop({.link = link, .hop = 0, .frame = std::move(frame)}, now);
}

std::vector<Shaper::Delivery> Shaper::poll(TimeNs now) {
  advance(now);
  return std::exchange(due_, {});
}

void Shaper::advance(TimeNs now) {
  const auto is_due = [now](const auto& events) { return !events.empty() && events.top().at <= now; };
  while (is_due(queue_events_) || is_due(link_events_)) {
    const bool queue_first = link_events_.empty() || (!queue_events_.empty() && link_events_.top() < queue_events_.top());
    auto& events = queue_first ? queue_events_ : link_events_;
    const Event event = events.top();
    events.pop();
    if (queue_first) {
      on_queue(event.index, event.at);
    } else {
      on_link(event.index, event.at);
    }
  }
}

TimeNs Shaper::next_event() const {
  if (!due_.empty()) return 0;
  const TimeNs from_links = link_events_.empty() ? kNever : link_events_.top().at;
  const TimeNs from_queues = queue_events_.empty() ? kNever : isthmus::later(queue_events_.top().at, least_delay_ns_);
  return std::min(from_links, from_queues);
}

void Shaper::on_queue(int index, TimeNs at) {
  Queue& queue = queues_[static_cast<size_t>(index)];
  if (queue.frames.empty() || queue.done_at != at) return;  // the rate has changed since, and there is another event
  Waiting first = std::move(queue.frames.front());
  queue.frames.pop_front();
  queue.bytes -= first.frame.size();
  serve_first(index, at);
  ++first.hop;
  enter_hop(std::move(first), at);
}

void Shaper::on_link(int index, TimeNs at) {
  Link& link = links_[static_cast<size_t>(index)];
  while (!link.frames.empty() && link.frames.front().due <= at) {
    link.counters.delivered.add(link.frames.front().frame.size());
    due_.push_back({index, std::move(link.frames.front().frame)});
    link.frames.pop_front();
  }
  if (!link.frames.empty()) link_events_.push({link.frames.front().due, order_++, index});
}

void Shaper::serve_first(int index, TimeNs at) {
  Queue& queue = queues_[static_cast<size_t>(index)];
  if (queue.frames.empty()) {
    queue.done_at = kNever;
    return;
  }
  queue.done_at = at + sending_time(queue.frames.front().frame.size(), queue.settings.rate_bits_per_s);
  queue_events_.push({queue.done_at, order_++, index});
}

void Shaper::enter_hop(Waiting waiting, TimeNs at) {
  Link& link = links_[static_cast<size_t>(waiting.link)];
  const size_t bytes = waiting.frame.size();
  for (; waiting.hop < link.path.size(); ++waiting.hop) {
    const int index = link.path[waiting.hop];
    Queue& queue = queues_[static_cast<size_t>(index)];
    if (queue.frames.empty() && queue.settings.rate_bits_per_s == kNoLimit) continue;
    if (!queue.frames.empty() && queue.bytes + bytes > queue.settings.limit_bytes) {
      link.counters.dropped.add(bytes);
      return;
    }
    queue.bytes += bytes;
    queue.most_bytes = std::max(queue.most_bytes, queue.bytes);
    queue.frames.push_back(std::move(waiting));
    if (queue.frames.size() == 1) serve_first(index, at);
    return;
  }
  travel(waiting.link, std::move(waiting.frame), at);
}

void Shaper::travel(int index, Frame frame, TimeNs at) {
  Link& link = links_[static_cast<size_t>(index)];
  if (link.line.loss > 0 && link.loss_rng.chance(link.line.loss)) {
    link.counters.lost.add(frame.size());
    return;
  }
  TimeNs delay = link.line.delay_ns;
  if (link.line.jitter_ns > 0) {
    delay += static_cast<TimeNs>((2 * link.jitter_rng.uniform() - 1) * static_cast<double>(link.line.jitter_ns));
  }
  TimeNs due = at + std::max<TimeNs>(0, delay);
  if (!link.frames.empty()) due = std::max(due, link.frames.back().due);
  link.frames.push_back({due, std::move(frame)});
  if (link.frames.size() == 1) link_events_.push({due, order_++, index});
}

}  // namespace linkemu
