// SPDX-License-Identifier: Apache-2.0
// A process's listening addresses as the bytes that travel in the bootstrap's table. Used by Tcp. Decoding untrusted bytes fails on
// anything that encoding could not have made.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transport/interface.h"

namespace isthmus::transport {

inline constexpr size_t kMaxBlobAddresses = 20;  // 1 + 20 * 23 bytes stay below 512

/// The first kMaxBlobAddresses of `addresses`.
std::vector<std::byte> encode_addresses(std::span<const Address> addresses);
Result<std::vector<Address>> decode_addresses(std::span<const std::byte> blob);

}  // namespace isthmus::transport
