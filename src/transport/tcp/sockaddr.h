// SPDX-License-Identifier: Apache-2.0
// Address to and from the system's sockaddr. Used by Sockets and interface listing; other families come back as nothing.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "transport/interface.h"

namespace isthmus::transport {

struct SockAddr {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

inline SockAddr to_sockaddr(const Address& address) {
  SockAddr out;
  if (address.family == 4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), sizeof v4.sin_addr);
    std::memcpy(&out.storage, &v4, sizeof v4);
    out.bytes = sizeof v4;
    return out;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  v6.sin6_scope_id = address.scope;
  std::memcpy(&v6.sin6_addr, address.bytes.data(), sizeof v6.sin6_addr);
  std::memcpy(&out.storage, &v6, sizeof v6);
  out.bytes = sizeof v6;
  return out;
}

/// Copies through memory because callers hold buffers of other types; IPv4 in IPv6 clothes comes back as IPv4.
inline std::optional<Address> from_sockaddr(const sockaddr* from) {
  Address address;
  if (from->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, from, sizeof v4);
    address.family = 4;
    address.port = ntohs(v4.sin_port);
    std::memcpy(address.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
    return address;
  }
  if (from->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, from, sizeof v6);
  address.port = ntohs(v6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    address.family = 4;
    std::memcpy(address.bytes.data(), v6.sin6_addr.s6_addr + 12, 4);
    return address;
  }
  address.family = 6;
  address.scope = v6.sin6_scope_id;
  std::memcpy(address.bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  return address;
}

}  // namespace isthmus::transport
