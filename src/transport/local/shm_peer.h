// SPDX-License-Identifier: Apache-2.0
// ShmPeer: everything that Shm knows of one other process of this host. Plain state; the rules are in shm.cc (moving frames) and
// shm_setup.cc (becoming and ceasing to be connected).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "transport/interface.h"
#include "transport/local/shm_channel.h"
#include "transport/local/shm_memory.h"
#include "transport/local/shm_socket.h"

namespace isthmus::transport {

struct ShmPeer {
  enum class State : uint8_t {
    known,       ///< nothing was sent yet
    connecting,  ///< we try: `socket` is our attempt, if one is under way
    accepting,   ///< the peer's attempt won; it is about to send the rings
    ready,
    failed,
  };
  /// A communicator that both sides belong to; any of their keys will do for the connection.
  struct Membership {
    uint64_t communicator = 0;
    Key key{};
  };

  ShmPeer(PeerId number, FrameSink& sink, uint64_t max_payload_bytes) : id(number), channel(number, sink, max_payload_bytes) {}

  const PeerId id;
  ProcessId process{};
  std::string socket_name;
  std::string title;  ///< "rank 3 on host a"
  int32_t rank = -1;
  std::vector<Membership> memberships;

  State state = State::known;
  std::optional<ShmSocket> socket;
  bool setup_sent = false;        ///< connecting: the peer is authenticated and has our rings
  std::optional<RingPair> rings;  ///< connecting: made, waiting for the peer's acceptance
  TimeNs deadline = kNever;       ///< of connecting and accepting
  TimeNs retry_at = 0;            ///< connecting: when to try again
  size_t next_membership = 0;     ///< connecting: whose key to try

  ShmChannel channel;
  PeerMemory memory;
  bool reads_us = false;                   ///< the peer has proved that it can read our memory
  std::unordered_set<uint64_t> announced;  ///< our segments that it can map
  Status ended;                            ///< why the socket ended; the peer fails once its ring is drained
  Status failure;

  [[nodiscard]] auto membership(uint64_t communicator) { return std::ranges::find(memberships, communicator, &Membership::communicator); }
};

}  // namespace isthmus::transport
