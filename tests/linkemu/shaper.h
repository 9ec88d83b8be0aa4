// SPDX-License-Identifier: Apache-2.0
// What the links of linkemu do to frames, in virtual time: wait for the rate, overflow a queue, get lost, travel. Used by linkemu's
// loop, which owns devices and the clock, and by unit tests. A state machine: it is handed the time, never reads a clock, and gives
// the same for the same frames, times and seed. Nothing here can fail; wrong numbers are refused where commands are read.
//
//   frame ─ queue of each cut of the link ─ queue of the link ─ lost? ─ delay ± jitter ─ frame
//
// A queue serves frames in order of arrival at its rate, and drops what it has no room for. A cut is a queue that several links share.
// Delays never reorder the frames of a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "base/types.h"

namespace linkemu {

using isthmus::TimeNs;
using Frame = std::vector<std::byte>;

inline constexpr uint64_t kNoLimit = UINT64_MAX;

/// Of a queue. Frames count with all their bytes.
struct QueueSettings {
  uint64_t rate_bits_per_s = kNoLimit;
  uint64_t limit_bytes = kNoLimit;  ///< waiting or being sent; an empty queue takes any frame
};

/// Of a link's way after its queues.
struct LineSettings {
  TimeNs delay_ns = 0;   ///< one way
  TimeNs jitter_ns = 0;  ///< each frame's delay is uniform within delay ± jitter, but never below 0, nor before an earlier frame
  double loss = 0;       ///< the chance of each frame to get lost, independent of all others
};

struct Count {
  uint64_t frames = 0, bytes = 0;
  void add(size_t frame_bytes) { ++frames, bytes += frame_bytes; }
};

/// Of a link: taken = delivered + dropped + lost + those on their way.
struct LinkCounters {
  Count taken, delivered, dropped, lost;
};

class Shaper {
 public:
  struct Delivery {
    int link;
    Frame frame;
  };

  explicit Shaper(uint64_t seed) : seed_(seed) {}

  /// Queues and links are numbered from 0 in order of their making.
  int add_queue();
  /// `path`: the queues that a frame passes before the link's own way, in this order. Each must exist.
  int add_link(std::vector<int> path);

  /// What is already in the queue goes on at the new rate; nothing is dropped for a lower limit.
  void set_queue(int queue, const QueueSettings& settings, TimeNs now);
  /// For frames that have not left the queues yet.
  void set_line(int link, const LineSettings& settings, TimeNs now);
  [[nodiscard]] const QueueSettings& queue_settings(int queue) const { return queues_[static_cast<size_t>(queue)].settings; }
  [[nodiscard]] const LineSettings& line_settings(int link) const { return links_[static_cast<size_t>(link)].line; }

  /// A frame enters a link. Times never run backwards, from call to call.
  void offer(int link, Frame frame, TimeNs now);
  /// The frames that have become due since the last call, in order of their time.
  [[nodiscard]] std::vector<Delivery> poll(TimeNs now);
  /// When poll() might have a frame to give out, and not later than it has one; isthmus::kNever if nothing is on its way. What happens in
  /// queues needs no call of its own: to be woken for it would cost more than all the rest.
  [[nodiscard]] TimeNs next_event() const;

  [[nodiscard]] const LinkCounters& counters(int link) const { return links_[static_cast<size_t>(link)].counters; }
  [[nodiscard]] uint64_t most_queued_bytes(int queue) const { return queues_[static_cast<size_t>(queue)].most_bytes; }

 private:
  struct Waiting {
    int link;
    size_t hop;  // the queue's place in the link's path
    Frame frame;
  };
  struct Queue {
    QueueSettings settings;
    std::deque<Waiting> frames;  // the first is being sent
    uint64_t bytes = 0, most_bytes = 0;
    TimeNs done_at = isthmus::kNever;  // of the first frame
  };
  struct Travelling {
    TimeNs due;
    Frame frame;
  };
  struct Link {
    std::vector<int> path;
    LineSettings line;
    isthmus::CounterRng loss_rng, jitter_rng;
    std::deque<Travelling> frames;  // due in this order
    LinkCounters counters;
  };
  struct Event {
    TimeNs at;
    uint64_t order;  // of two at the same time, the earlier made is first
    int index;       // of a queue or a link
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void advance(TimeNs now);
  void on_queue(int index, TimeNs at);
  void on_link(int index, TimeNs at);
  void enter_hop(Waiting waiting, TimeNs at);
  void travel(int link, Frame frame, TimeNs at);
  void serve_first(int queue, TimeNs at);

  uint64_t seed_, order_ = 0;
  TimeNs least_delay_ns_ = 0;  // of all links
  std::vector<Queue> queues_;
  std::vector<Link> links_;
  std::priority_queue<Event> queue_events_, link_events_;
  std::vector<Delivery> due_;
};

}  // namespace linkemu
