// SPDX-License-Identifier: Apache-2.0
// What ncclUniqueId carries, and what is derived from it. Whoever holds the id may join and nobody else, so it is as confidential as
// the channel that carries it. Made by ncclGetUniqueId's side (fresh_id, then Root), read by every rank. Unpacking fails on bytes
// that no Isthmus wrote.
//
// The id only opens the rendezvous. The root then draws a Session, sent to all ranks over the proven links; the communicator's number
// and all later keys come from it. So two communicators never share them, not even when both were made with the same NCCL_COMM_ID.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/crypto.h"
#include "base/status.h"
#include "transport/interface.h"

namespace isthmus::bootstrap {

/// Fills with bytes that nobody can guess; the simulator passes its own.
using RandomSource = std::function<Status(std::span<std::byte>)>;

struct UniqueId {
  static constexpr size_t kRoots = 3;

  Key secret{};
  std::array<std::byte, 16> nonce{};
  std::array<transport::Address, kRoots> roots{};  ///< where the root listens; family 0: unused

  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

/// ncclUniqueId's bytes: magic 8, nonce 16, secret 32, three times (address 16, port 2, scope 4, family 1), then zeros.
using PackedId = std::array<std::byte, 128>;

PackedId pack(const UniqueId& id);
/// invalid_argument unless the bytes are an id with at least one root.
Result<UniqueId> unpack(std::span<const std::byte, 128> bytes);

/// A new id without roots.
Result<UniqueId> fresh_id(const RandomSource& random);
/// Under which number and key ranks meet the root.
uint64_t rendezvous_number(const UniqueId& id);
Key rendezvous_key(const Crypto& crypto, const UniqueId& id);

/// Drawn by the root for one communicator; not secret.
using Session = std::array<std::byte, 16>;

/// The communicator's number in frames and hellos.
uint64_t communicator_number(const Session& session);
/// The communicator's key for one use, such as "data"; needs the id's secret.
Key session_key(const Crypto& crypto, const Key& secret, const Session& session, std::string_view use);

}  // namespace isthmus::bootstrap
