// SPDX-License-Identifier: Apache-2.0
// Which of this host's addresses others are told: NCCL_SOCKET_IFNAME's and NCCL_SOCKET_FAMILY's grammar, and a default that
// avoids what other hosts cannot reach. Called by Sockets. Fails when nothing matches or the system refuses to list interfaces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/interface.h"

namespace isthmus::transport {

/// One address of one interface.
struct InterfaceAddress {
  std::string interface;
  Address address;  ///< port 0
  bool up = false;
  bool loopback = false;
  bool bridge = false;
  bool tunnel = false;  ///< point-to-point, tun/tap, IP-in-IP
};

/// What the system says, in its order.
Result<std::vector<InterfaceAddress>> list_interface_addresses();

/// Best first. `ifname` "": interfaces that other hosts can plausibly reach, else bridges and tunnels, else containers' plumbing and
/// link-local addresses, else loopback. "eth,ib0": by prefix, in this order of preference; "=eth0": exactly; "^docker": the default
/// without these ("^=eth0" exactly these). `family` "": both, "AF_INET", "AF_INET6".
Result<std::vector<Address>> choose_addresses(std::span<const InterfaceAddress> all, std::string_view ifname, std::string_view family);

}  // namespace isthmus::transport
