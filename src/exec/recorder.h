// SPDX-License-Identifier: Apache-2.0
// The flight recorder: the latest events of one process (calls, failures, communicators), kept in a
// ring so that a stall or failure can be explained afterwards. Filled by the engine and its runs, read by Process when something goes
// wrong. A call costs one cache line and no clock: events get their time from the next poll that looks at one.
// Nothing here fails.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "exec/call.h"

namespace isthmus::exec {

enum class Moment : uint8_t {
  opened,      ///< a communicator
  closed,      ///< the same
  call,        ///< a call's turn came; `peer` is its root. Says later from whom its first frame came and when and how it ended.
  lost,        ///< a call lost the way to `peer`
  mismatched,  ///< something of `peer` does not fit a call
  stalled,     ///< nothing has come for a call for a while
  late,        ///< a call was warned about
  failed,      ///< a communicator, for a reason that began with `peer`
};
std::string_view name_of(Moment moment);

/// One cache line. Times that are not known yet are kUnknown.
struct Event {
  static constexpr TimeNs kUnknown = -1;

  TimeNs when_ns = kUnknown;
  TimeNs ended_ns = kUnknown;
  uint64_t communicator = 0;
  uint64_t count = 0;              ///< elements; ranks of a communicator
  const char* how_text = nullptr;  ///< the algorithm's name (static storage)
  uint32_t sequence = 0;
  int32_t rank = -1;
  int32_t peer = -1;
  int32_t first_from = -1;
  uint8_t how_length = 0;
  Moment moment = Moment::call;
  Collective collective = Collective::allreduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Code code = Code::ok;

  [[nodiscard]] std::string_view how() const { return {how_text, how_length}; }
  /// "rank 0 of 0x57: call #7 allreduce count 100 float sum (ring), first frame from rank 1, ended after 2 ms".
  [[nodiscard]] std::string to_text() const;
  /// One JSON object.
  [[nodiscard]] std::string to_json() const;
  /// True if a call is what it is about.
  [[nodiscard]] bool about_call() const { return moment >= Moment::call && moment <= Moment::late; }
};
static_assert(sizeof(Event) == 64);

class Recorder {
 public:
  static constexpr size_t kEvents = 1024;  ///< a power of two

  Recorder() : events_(kEvents) {}

  /// Returns the event's number.
  uint64_t add(const Event& event) {
    events_[recorded_ & (kEvents - 1)] = event;
    return recorded_++;
  }
  /// An event of a call.
  uint64_t add(Moment moment, uint64_t communicator, int32_t rank, const Signature& signature, std::string_view how, int32_t peer) {
    return add({.communicator = communicator,
                .count = signature.count,
                .how_text = how.data(),
                .sequence = signature.sequence,
                .rank = rank,
                .peer = peer,
                .how_length = static_cast<uint8_t>(how.size()),
                .moment = moment,
                .collective = signature.collective,
                .type = signature.type,
                .op = signature.op});
  }
  /// The event of that number; null if it has been overwritten.
  [[nodiscard]] Event* find(uint64_t number) { return recorded_ - number <= kEvents ? &events_[number & (kEvents - 1)] : nullptr; }
  void end(uint64_t number, TimeNs now, Code code) {
    Event* event = find(number);
    if (event == nullptr) return;
    if (event->when_ns == Event::kUnknown) event->when_ns = now;
    event->ended_ns = now;
    event->code = code;
  }
  /// Events that have no time yet happened now. Called often enough that nobody minds.
  void stamp(TimeNs now);

  [[nodiscard]] uint64_t recorded() const { return recorded_; }
  /// Calls `visit(event)` for the latest `most` events, oldest first.
  template <typename Visit>
  void for_each_latest(uint64_t most, Visit&& visit) const {
    const uint64_t kept = std::min<uint64_t>({most, recorded_, kEvents});
    for (uint64_t i = recorded_ - kept; i < recorded_; ++i) visit(events_[i & (kEvents - 1)]);
  }
  /// The latest `most` events, one a line with their age at `now`.
  [[nodiscard]] std::string to_text(TimeNs now, uint64_t most = kEvents) const;
  /// The same as JSON lines.
  [[nodiscard]] std::string to_json_lines(uint64_t most = kEvents) const;

 private:
  std::vector<Event> events_;
  uint64_t recorded_ = 0;
  uint64_t stamped_ = 0;  ///< events with a lower number have their time
};

}  // namespace isthmus::exec
