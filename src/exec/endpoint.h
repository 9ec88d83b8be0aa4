// SPDX-License-Identifier: Apache-2.0
// One rank of one communicator as the engine knows it: who its peers are, what may be sent to each, which calls wait and run.
// Opened by comm/, owned by the engine; touched only under the Process's lock. Plain state: the rules are in run.cc and engine.cc.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fifo.h"
#include "base/status.h"
#include "memory/pool.h"
#include "transport/interface.h"
#include "wire/frame.h"

namespace isthmus::exec {

class Run;

/// A frame whose call has not begun here yet.
struct Early {
  wire::FrameHeader header;
  memory::Block payload;
  uint64_t arrived = 0;
};

/// The state towards one peer rank. Flow control: a message is pushed only when the peer has granted its ordinal or while eager
/// credit lasts, so whatever arrives has room and transports never stall (docs/decisions/0004).
struct Flow {
  transport::PeerId peer = 0;
  transport::Transport* transport = nullptr;
  uint64_t credit_bytes = 0;        ///< what I may still push ungranted
  uint64_t consumed_bytes = 0;      ///< eager bytes of the peer that I used up and have not returned yet
  uint64_t early_bytes = 0;         ///< eager bytes of the peer that lie here unused
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

  [[nodiscard]] Lane& lane(wire::CallClass call_class) { return lanes[static_cast<size_t>(call_class)]; }
  [[nodiscard]] bool idle() const { return lanes[0].active == nullptr && lanes[1].active == nullptr; }
};

}  // namespace isthmus::exec
