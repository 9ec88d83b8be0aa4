// SPDX-License-Identifier: Apache-2.0
// The mutual handshake at the start of every connection of a job, as a pure state machine: bytes in, bytes out. Used by bootstrap/
// (rendezvous, control links) and transport/tcp (data streams). Fails on anything but a peer that holds the communicator's key:
// wrong magic or version, unknown communicator, wrong tag, replay, own reflection. A failed handshake never says why to the peer.
//
//   initiator -> responder   magic version hello_i nonce_i
//   responder -> initiator   magic version hello_r nonce_r HMAC(key, "responder" | transcript)
//   initiator -> responder   HMAC(key, "initiator" | transcript)
//
// The transcript is everything sent before the tag without tags, so both tags cover both hellos and both nonces: a recorded
// conversation is worthless against a fresh nonce, and one side's tag is never valid as the other's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/crypto.h"
#include "base/status.h"

namespace isthmus::wire {

/// What a connection is for.
enum class Purpose : uint8_t { rendezvous = 1, control = 2, data = 3, aggregate = 4 };

/// What each side claims; all of it is covered by the tags.
struct Hello {
  static constexpr size_t kBytes = 40;

  uint64_t communicator = 0;
  int32_t rank = 0;  ///< -1: the root of a rendezvous, which is no rank
  int32_t ranks = 0;
  uint32_t epoch = 0;
  Purpose purpose = Purpose::rendezvous;
  uint16_t stream = 0;                ///< index of this stream among several of the same pair
  std::array<uint8_t, 16> process{};  ///< two ends of one connection differ in it, except a rank that meets a root of its own process
  friend bool operator==(const Hello&, const Hello&) = default;
};

using Nonce = std::array<std::byte, 16>;

/// One side of one connection. Order of calls: whenever output() is not empty write it and report sent(); otherwise read at most
/// wanted() bytes and give them to input(). After an error from input() only destruction makes sense (and closing the connection).
/// The machine has no deadline of its own: its owner drops it when the peer is too slow.
class Handshake {
 public:
  /// The responder's view of a claimed hello: the key to check it with, or null to refuse (unknown communicator, rank out of
  /// range, wrong size or epoch). `again` tells the machine to keep the connection and ask later (the communicator may be about to
  /// become known): wanted() is then 0 and input({}) asks again. The key is copied before the lookup's owner runs again.
  struct KeyAnswer {
    const Key* key = nullptr;
    bool again = false;
  };
  using KeyLookup = std::function<KeyAnswer(const Hello&)>;

  /// `crypto` outlives the machine; `nonce` is fresh random bytes.
  static Handshake initiate(const Crypto& crypto, const Hello& mine, const Key& key, const Nonce& nonce);
  /// Of `mine` only rank and process matter: the rest is sent back as the initiator claimed it (and the lookup accepted it).
  static Handshake respond(const Crypto& crypto, const Hello& mine, KeyLookup lookup, const Nonce& nonce);

  /// Bytes to write to the peer now; call sent() with how many went out. Valid until the next call that is not const.
  [[nodiscard]] std::span<const std::byte> output() const;
  void sent(size_t bytes);
  /// How many bytes the machine can take now (0: it is done, waiting for its own output, or for the key: then call input with nothing).
  [[nodiscard]] size_t wanted() const;
  /// Takes at most wanted() bytes. remote_error: the peer is refused, the text (for our own log only) says why.
  Status input(std::span<const std::byte> bytes);
  /// The responder has a hello whose key is not known yet (KeyAnswer::again).
  [[nodiscard]] bool awaits_key() const { return awaits_ == Awaits::key; }
  /// Both sides have proved the key and all output is sent.
  [[nodiscard]] bool done() const { return awaits_ == Awaits::nothing && output().empty(); }
  /// input() has refused the peer.
  [[nodiscard]] bool failed() const { return awaits_ == Awaits::failed; }
  /// The peer's hello; trustworthy only once done().
  [[nodiscard]] const Hello& peer() const { return peer_; }

 private:
  static constexpr size_t kOpeningBytes = 8 + 2 + Hello::kBytes + sizeof(Nonce);  // magic version hello nonce
  static constexpr size_t kReplyBytes = kOpeningBytes + sizeof(Key);
  using Opening = std::array<std::byte, kOpeningBytes>;

  /// What the machine goes on with, once its output is gone.
  enum class Awaits : uint8_t { opening, key, reply, tag, nothing, failed };

  Handshake(const Crypto& crypto, const Hello& mine, const Nonce& nonce, Awaits awaits);
  Status on_message();
  Status on_opening();
  Status ask_for_key();
  Status on_reply();
  Status on_tag();
  /// Fills peer_ from the opening that the peer sent; refuses foreign protocols, other versions and our own reflection.
  Status read_opening(const Opening& opening);
  Opening write_opening() const;
  [[nodiscard]] size_t expected_bytes() const;
  /// The tag that `side` ("initiator" or "responder") owes.
  [[nodiscard]] Key tag(std::string_view side) const;
  void queue(std::span<const std::byte> bytes);

  const Crypto* crypto_;
  KeyLookup lookup_;
  Hello mine_, peer_;
  Nonce nonce_;
  Key key_{};
  Awaits awaits_;
  Opening initiators_{}, responders_{};
  std::array<std::byte, kReplyBytes> in_{}, out_{};  // the reply is the longest message
  size_t in_bytes_ = 0, out_bytes_ = 0, out_sent_ = 0;
};

}  // namespace isthmus::wire
