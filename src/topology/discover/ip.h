// SPDX-License-Identifier: Apache-2.0
// Addresses and the networks they are in, as topology files and the last rung of the ladder need them. Parsing fails with what is accepted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace isthmus::topology {

struct Ip {
  std::array<uint8_t, 16> bytes{};  ///< the first 4 for IPv4
  uint8_t family = 0;               ///< 4 or 6

  [[nodiscard]] int bits() const { return family == 4 ? 32 : 128; }
};

/// The addresses whose first `bits` bits are those of `base`.
struct Network {
  Ip base;
  int bits = 0;
};

/// "10.0.0.1", "fd00::1".
Result<Ip> parse_ip(std::string_view text);
/// "10.1.0.0/16", "fd00:1::/32", or an address, which is a network of one.
Result<Network> parse_network(std::string_view text);
bool contains(const Network& network, const Ip& ip);
/// The network of `bits` bits that `ip` is in.
Network network_of(const Ip& ip, int bits);
std::string text_of(const Ip& ip);
std::string text_of(const Network& network);
/// Of the loopback interface, or valid on one link only: every host has such addresses, so they tell nothing about places.
bool is_everywhere(const Ip& ip);

}  // namespace isthmus::topology
