// SPDX-License-Identifier: Apache-2.0
// Addresses and networks. See ip.h.
#include "topology/discover/ip.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include "base/text.h"

namespace isthmus::topology {
namespace {

constexpr std::string_view kAccepted = "a network such as 10.1.0.0/16 or fd00:1::/32 is accepted";

bool bit(const Ip& ip, int at) { return (ip.bytes[static_cast<size_t>(at) / 8] >> (7 - at % 8) & 1) != 0; }

}  // namespace

Result<Ip> parse_ip(std::string_view text) {
  Ip ip;
  const std::string copy(text);
  for (const auto& [family, number] : {std::pair{AF_INET, uint8_t{4}}, std::pair{AF_INET6, uint8_t{6}}}) {
    if (inet_pton(family, copy.c_str(), ip.bytes.data()) != 1) continue;
    ip.family = number;
    return ip;
  }
  return invalid_argument("an address such as 10.0.0.1 or fd00::1 is accepted");
}

Result<Network> parse_network(std::string_view text) {
  const size_t slash = text.find('/');
  const auto base = parse_ip(text.substr(0, slash));
  if (!base.ok()) return invalid_argument(std::string(kAccepted));
  if (slash == std::string_view::npos) return Network{.base = *base, .bits = base->bits()};
  const auto bits = parse_unsigned(text.substr(slash + 1), static_cast<uint64_t>(base->bits()));
  if (!bits.ok()) return invalid_argument(fmt::format("{}; at most {} bits here", kAccepted, base->bits()));
  const Network network = network_of(*base, static_cast<int>(*bits));
  if (network.base.bytes != base->bytes) {
    return invalid_argument(fmt::format("bits are set behind the first {}; {} would be the network", *bits, text_of(network)));
  }
  return network;
}

bool contains(const Network& network, const Ip& ip) {
  return network.base.family == ip.family && network_of(ip, network.bits).base.bytes == network.base.bytes;
}

Network network_of(const Ip& ip, int bits) {
  Network network{.base = {.family = ip.family}, .bits = bits};
  for (int at = 0; at < bits; ++at) {
    if (bit(ip, at)) network.base.bytes[static_cast<size_t>(at) / 8] |= static_cast<uint8_t>(1 << (7 - at % 8));
  }
  return network;
}

std::string text_of(const Ip& ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(ip.family == 4 ? AF_INET : AF_INET6, ip.bytes.data(), text.data(), text.size());
  return text.data();
}

std::string text_of(const Network& network) { return fmt::format("{}/{}", text_of(network.base), network.bits); }

bool is_everywhere(const Ip& ip) {
  if (ip.family == 4) return ip.bytes[0] == 127 || (ip.bytes[0] == 169 && ip.bytes[1] == 254);
  Ip loopback{.family = 6};
  loopback.bytes[15] = 1;
  return ip.bytes == loopback.bytes || (ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80);
}

}  // namespace isthmus::topology
