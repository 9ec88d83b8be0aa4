// SPDX-License-Identifier: Apache-2.0
// The mutual handshake at the start of every connection of a job, as a pure state machine: bytes in, bytes out. Used by bootstrap/
// (rendezvous, control links) and transport/tcp (data streams). Fails on anything but a peer that holds the communicator's key:
// wrong magic or version, unknown communicator, wrong tag, replay, own reflection. A failed handshake never says why to the peer.
//
//   initiator -> responder   magic version hello_i nonce_i
//   responder -> initiator   hello_r nonce_r HMAC(key, "responder" | transcript)
//   initiator -> responder   HMAC(key, "initiator" | transcript)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/crypto.h"
#include "base/status.h"

namespace isthmus::wire {

/// What a connection is for.
enum class Purpose : uint8_t { rendezvous = 1, control = 2, data = 3 };

/// What each side claims; all of it is covered by the tags.
struct Hello {
  uint64_t communicator = 0;
  int32_t rank = 0;
  int32_t ranks = 0;
  uint32_t epoch = 0;
  Purpose purpose = Purpose::rendezvous;
  uint16_t stream = 0;  ///< index of this stream among several of the same pair
  std::array<uint8_t, 16> process{};
};

using Nonce = std::array<std::byte, 16>;

class Handshake {
 public:
  /// The responder's view of a claimed hello: the key to check it with, or null to refuse (unknown communicator, rank out of
  /// range, wrong size or epoch). `again` tells the caller to keep the connection and ask later (the communicator may be about to
  /// become known).
  struct KeyAnswer {
    const Key* key = nullptr;
    bool again = false;
  };
  using KeyLookup = std::function<KeyAnswer(const Hello&)>;

  static Handshake initiate(const Crypto& crypto, const Hello& mine, const Key& key, const Nonce& nonce);
  /// `mine` is sent back with the initiator's communicator, purpose and stream filled in.
  static Handshake respond(const Crypto& crypto, const Hello& mine, KeyLookup lookup, const Nonce& nonce);

  /// Bytes to write to the peer now; call sent() with how many went out.
  [[nodiscard]] std::span<const std::byte> output() const;
  void sent(size_t bytes);
  /// How many bytes the machine can take now (0: it is done, waiting for its own output, or for the key: then call input with nothing).
  [[nodiscard]] size_t wanted() const;
  Status input(std::span<const std::byte> bytes);
  /// Both sides have proved the key and all output is sent.
  [[nodiscard]] bool done() const;
  /// The peer's hello; trustworthy only once done().
  [[nodiscard]] const Hello& peer() const;

 private:
  // (private state belongs to handshake.cc's author)
};

}  // namespace isthmus::wire
