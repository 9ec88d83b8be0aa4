// SPDX-License-Identifier: Apache-2.0
// Addresses as text. Called for messages, settings and identifiers; parsing fails on anything but a numeric host and a port.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>

#include "transport/interface.h"

namespace isthmus::transport {

namespace {

Status not_an_address(std::string_view text, std::string_view why) {
  return invalid_argument(fmt::format("\"{}\" is not an address: {} (expected 10.0.0.1:4000 or [fe80::1%eth0]:4000)", text, why));
}

template <typename T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool parse_bytes(int family, std::string_view host, Address& address) {
  return inet_pton(family, std::string(host).c_str(), address.bytes.data()) == 1;
}

/// A scope is an interface's index or its name.
bool parse_scope(std::string_view text, uint32_t& scope) {
  if (parse_number(text, scope)) return true;
  scope = if_nametoindex(std::string(text).c_str());
  return scope != 0;
}

}  // namespace

std::string to_string(const Address& address) {
  if (address.family == 0) return "(no address)";
  std::array<char, INET6_ADDRSTRLEN> host{};
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes.data(), host.data(), host.size());
  if (address.family == 4) return fmt::format("{}:{}", host.data(), address.port);
  if (address.scope != 0) return fmt::format("[{}%{}]:{}", host.data(), address.scope, address.port);
  return fmt::format("[{}]:{}", host.data(), address.port);
}

Result<Address> parse_address(std::string_view text) {
  Address address;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_address(text, "no port");
  if (!parse_number(text.substr(colon + 1), address.port)) return not_an_address(text, "the port is not a number below 65536");
  std::string_view host = text.substr(0, colon);
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') {
    address.family = 4;
    if (!parse_bytes(AF_INET, host, address)) return not_an_address(text, "the host is not numeric");
    return address;
  }
  host = host.substr(1, host.size() - 2);
  if (const size_t percent = host.find('%'); percent != std::string_view::npos) {
    if (!parse_scope(host.substr(percent + 1), address.scope)) return not_an_address(text, "the scope is no interface of this host");
    host = host.substr(0, percent);
  }
  address.family = 6;
  if (!parse_bytes(AF_INET6, host, address)) return not_an_address(text, "the host is not a numeric IPv6 address");
  return address;
}

}  // namespace isthmus::transport
