// SPDX-License-Identifier: Apache-2.0
// Shamir's sharing of secrets of 32 bytes, over GF(2^8), byte by byte (A. Shamir, "How to share a secret", CACM 22, 1979): any t shares
// give the secret, fewer say nothing. In constant time as far as secrets go. Used by masks; nothing here can fail.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/masking.h"

namespace isthmus::federated {

/// Shares have the numbers 1 to this.
inline constexpr uint32_t kMaxShares = 255;

/// One of a secret's shares, with its number.
struct Share {
  uint8_t number = 0;
  Secret value;
};

/// The share of number 1, 2, ... each. `noise` are threshold - 1 random secrets, used for this alone. count <= kMaxShares.
std::vector<Share> split_secret(const Secret& secret, std::span<const Secret> noise, uint32_t count);
/// The secret of which these are shares: as many as the threshold, with different numbers.
Secret join_shares(std::span<const Share> shares);

}  // namespace isthmus::federated
