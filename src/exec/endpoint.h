// SPDX-License-Identifier: Apache-2.0
// One rank of one communicator as the engine knows it: who its peers are, what may be sent to each, which calls wait and run.
// Opened by comm/, owned by the engine; touched only under the Process's lock. Plain state: the rules are in run.cc and engine.cc.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fifo.h"
#include "base/status.h"
#include "exec/call.h"
#include "memory/pool.h"
#include "transport/interface.h"
#include "wire/frame.h"

namespace isthmus::exec {

class Run;
struct Core;

/// A call that was made, kept for a while so that a mismatch which shows later can be explained.
struct CallRecord {
  wire::CallClass call_class = wire::CallClass::collective;
  int32_t peer = -1;     ///< send_recv: the other side
  bool is_send = false;  ///< send_recv: direction
  uint32_t number = 0;   ///< sequence of a collective; number of the message within its pair and direction
  uint64_t key = 0;
  Signature signature;
  std::string_view how;

  /// "call #7 allreduce count 100 float sum (ring)", "send #3 to rank 1 count 10 float".
  [[nodiscard]] std::string to_text() const;
};

/// Is told about an endpoint's troubles, from within the engine: it may call Engine::fail, but neither submit nor close.
class Observer {
 public:
  virtual ~Observer() = default;
  /// The endpoint has failed; told once.
  virtual void on_failed(const Status& why) = 0;
  /// Something of `rank` does not fit call `number` of that class here. The call waits a moment for an explanation.
  virtual void on_suspect(int32_t rank, wire::CallClass call_class, uint32_t number) = 0;
  /// A call was submitted and is in the history.
  virtual void on_submitted() = 0;
  /// Whether the call, a collective, may begin now; if not, it is to be asked for again after a poll. May have it planned anew.
  virtual bool admits(Call&) { return true; }
  /// The run, of an endpoint that is `timed`, has ended well.
  virtual void on_ended(const Run&, TimeNs /*took_ns*/) {}
  /// The run has waited for a while with nothing arriving.
  virtual void on_stalled(const Run& run) = 0;
  /// The run will be warned about shortly: time to ask the others.
  virtual void on_late(const Run& run) = 0;
  /// What they answered, a line for each that begins with a line end.
  virtual std::string answers(const Run& run) = 0;
};

/// A frame whose call has not begun here yet.
struct Early {
  wire::FrameHeader header;
  memory::Block payload;
  uint64_t arrived = 0;

  /// Payload that arrives for such a header is this frame's. A sender may repeat a frame: the latest that is not complete is meant.
  [[nodiscard]] bool is_landing(const wire::FrameHeader& other) const {
    return arrived < wire::payload_bytes(header) && header.type == other.type && header.communicator == other.communicator &&
           header.destination == other.destination && header.source == other.source && header.call_class == other.call_class &&
           header.sequence == other.sequence && header.ordinal == other.ordinal && header.length == other.length;
  }
  /// What it takes of the sender's credit.
  [[nodiscard]] uint64_t cost() const { return (header.flags & wire::kEager) != 0 ? header.length + wire::FrameHeader::kBytes : 0; }
};

/// Payload bytes, as a rank counts them.
struct Traffic {
  uint64_t sent_bytes = 0;      ///< pushed to the peer
  uint64_t offered_bytes = 0;   ///< offered to it, to be read in place
  uint64_t received_bytes = 0;  ///< of messages that it pushed
  uint64_t read_bytes = 0;      ///< of the peer's memory, read in place
  Traffic& operator+=(const Traffic& other) {
    sent_bytes += other.sent_bytes;
    offered_bytes += other.offered_bytes;
    received_bytes += other.received_bytes;
    read_bytes += other.read_bytes;
    return *this;
  }
};

/// The state towards one peer rank. Flow control: a message is pushed only when the peer has granted its ordinal or while eager
/// credit lasts, so whatever arrives has room and transports never stall (docs/decisions/0004).
struct Flow {
  transport::PeerId peer = 0;
  transport::Transport* transport = nullptr;
  Traffic traffic;
  uint64_t credit_bytes = 0;        ///< what I may still push ungranted
  uint64_t consumed_bytes = 0;      ///< eager bytes of the peer that I used up and have not returned yet
  uint64_t early_bytes = 0;         ///< eager bytes of the peer that lie here unused
  bool lost = false;                ///< the peer is gone, and all that it sent has been read
  bool peer_offers = false;         ///< the peer's large messages come as offers, so grants ahead of time are useless
  uint32_t granted_user_sends = 0;  ///< user sends with a lower number have room at the peer
  uint32_t next_send = 0;           ///< number of the next user send to the peer
  uint32_t next_recv = 0;           ///< number of the next user recv from the peer
  std::vector<Early> early;
};

/// Calls of one class run one after the other, in the order in which they were made.
struct Lane {
  Fifo<Run*> waiting;
  Run* active = nullptr;
  uint32_t next_sequence = 0;
};

struct Endpoint {
  uint64_t communicator = 0;
  int32_t rank = 0;
  int32_t ranks = 1;
  std::vector<Flow> flows;    ///< by rank; the own entry is unused
  std::array<Lane, 2> lanes;  ///< by CallClass
  Status failure;             ///< once set, every call on this endpoint returns it
  Status condemned;           ///< a rank has died: becomes the failure once the calls under way have ended, or have waited a moment
  Observer* observer = nullptr;
  bool timed = false;  ///< the observer wants to know how long calls take
  static constexpr size_t kHistory = 64;
  std::array<CallRecord, kHistory> history;  ///< a ring of the latest calls
  uint64_t recorded = 0;                     ///< calls ever recorded

  void record(const CallRecord& call) { history[recorded++ % kHistory] = call; }
  /// The record of a call, if it is kept still. `peer` and `is_send` matter to send/recv only.
  [[nodiscard]] const CallRecord* find_record(wire::CallClass call_class, int32_t peer, bool is_send, uint32_t number) const;

  [[nodiscard]] Lane& lane(wire::CallClass call_class) { return lanes[static_cast<size_t>(call_class)]; }
  uint32_t early_frames = 0;  ///< in all flows
  /// Puts a frame by until its call begins; gives it back.
  Early& keep_early(Flow& flow, Early&& early) {
    ++early_frames;
    flow.early_bytes += early.cost();
    return flow.early.emplace_back(std::move(early));
  }
  Early take_early(Flow& flow, size_t place) {
    --early_frames;
    Early early = std::move(flow.early[place]);
    flow.early.erase(flow.early.begin() + static_cast<std::ptrdiff_t>(place));
    flow.early_bytes -= early.cost();
    return early;
  }

  bool quick = false;  ///< its call is on the short way (quick.h)
  [[nodiscard]] bool idle() const { return !quick && lanes[0].active == nullptr && lanes[1].active == nullptr; }
};

/// Eager bytes of a peer rank were used up: gives them back, a good deal at a time. Fails where the peer is lost.
Status return_credit(Core& core, Endpoint& endpoint, int32_t rank, wire::CallClass call_class, uint64_t bytes);

}  // namespace isthmus::exec
