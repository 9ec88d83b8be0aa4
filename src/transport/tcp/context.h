// SPDX-License-Identifier: Apache-2.0
// What the parts of one Tcp share: walls, options, turns, counters. Private to tcp/; nothing here can fail.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "transport/interface.h"
#include "transport/tcp/readiness.h"

namespace isthmus::transport {

struct TcpOptions {
  ProcessId process{};   ///< this process, as its peers know it
  uint32_t streams = 1;  ///< to each peer; frames of a (communicator, class) stay on one
  /// For the streams that this process opens. What the system holds unsent, grants have to wait for: on a slow link 10 ms.
  StreamOptions stream{.unsent_bytes = 128 << 10};
  TimeNs setup_timeout_ns = 30 * kSecondNs;
  uint64_t max_payload_bytes = uint64_t{1} << 40;
};

struct TcpCounters {
  uint64_t frames_sent = 0, frames_received = 0;
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< headers and payloads
  uint64_t streams_opened = 0, streams_accepted = 0;
  uint64_t strangers_refused = 0;    ///< wrong protocol, key or process
  uint64_t strangers_timed_out = 0;  ///< said too little too late, or were sent away in a flood
};

/// The end of a stream of a peer.
struct StreamFailure {
  PeerId peer = 0;
  Status why;
};

struct TcpContext {
  /// Bytes that one stream may move in one turn, so that peers progress side by side.
  static constexpr uint64_t kTurnBytes = 256 << 10;

  Network& network;
  FrameSink& sink;
  const Crypto& crypto;
  TcpOptions options;
  TcpCounters counters{};
  std::vector<StreamFailure> failures{};  ///< since the last poll; the first one of a peer is its cause
  Readiness readiness{};
  std::array<std::byte, 16 << 10> scratch{};  ///< what streams read headers and small payloads into, during a turn
};

}  // namespace isthmus::transport
