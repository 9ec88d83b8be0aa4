// SPDX-License-Identifier: Apache-2.0
// Interface selection: a pure ranking over what getifaddrs and /sys/class/net report. Fails naming the setting and what exists.
#include "transport/tcp/interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_arp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>

#include "transport/tcp/sockaddr.h"

namespace isthmus::transport {

namespace {

constexpr int kUnwanted = -1;

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_link_local(const Address& address) {
  if (address.family == 4) return address.bytes[0] == 169 && address.bytes[1] == 254;
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

/// How far away an address is useful, 0 best.
enum Tier : int { kReachable = 0, kVirtual = 1, kHostOnly = 2, kLoopback = 3 };

Tier default_tier(const InterfaceAddress& entry) {
  if (entry.loopback) return kLoopback;
  if (is_link_local(entry.address) || starts_with_any(entry.interface, {"docker", "veth", "virbr", "br-"})) return kHostOnly;
  if (entry.bridge || entry.tunnel || starts_with_any(entry.interface, {"tun", "tap", "cni", "flannel", "cali"})) return kVirtual;
  return kReachable;
}

/// NCCL_SOCKET_IFNAME, taken apart.
struct NameFilter {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string_view> names;

  explicit NameFilter(std::string_view text) {
    if (text.starts_with('^')) exclude = true, text.remove_prefix(1);
    if (text.starts_with('=')) exact = true, text.remove_prefix(1);
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      if (comma > 0) names.push_back(text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }
  /// Position of the first name that matches, or kUnwanted.
  [[nodiscard]] int match(std::string_view interface) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (exact ? interface == names[i] : interface.starts_with(names[i])) return static_cast<int>(i);
    }
    return kUnwanted;
  }
};

/// The group an address belongs to; only the lowest group that exists is told to others.
int group_of(const InterfaceAddress& entry, const NameFilter& filter) {
  const int position = filter.match(entry.interface);
  if (!filter.names.empty() && (position == kUnwanted) != filter.exclude) return kUnwanted;
  if (filter.names.empty() || filter.exclude) return default_tier(entry);
  return is_link_local(entry.address) ? kHostOnly : kReachable;
}

/// Order within a group: the user's order of names; by default InfiniBand's IP first.
int order_of(const InterfaceAddress& entry, const NameFilter& filter) {
  if (!filter.names.empty() && !filter.exclude) return filter.match(entry.interface);
  return entry.interface.starts_with("ib") ? 0 : 1;
}

Result<uint8_t> parse_family(std::string_view family) {
  if (family.empty()) return uint8_t{0};
  if (family == "AF_INET") return uint8_t{4};
  if (family == "AF_INET6") return uint8_t{6};
  return invalid_argument(fmt::format("NCCL_SOCKET_FAMILY=\"{}\": expected AF_INET or AF_INET6", family));
}

Status nothing_matches(std::span<const InterfaceAddress> all, std::string_view ifname, std::string_view family) {
  std::set<std::string> present;
  for (const InterfaceAddress& entry : all) {
    present.insert(fmt::format(" {} (IPv{}{})", entry.interface, entry.address.family, entry.up ? "" : ", down"));
  }
  std::string text =
      fmt::format("no interface of this host matches NCCL_SOCKET_IFNAME=\"{}\" NCCL_SOCKET_FAMILY=\"{}\"; there are:", ifname, family);
  for (const std::string& entry : present) text += entry;
  return invalid_argument(std::move(text));
}

bool is_tunnel(const std::string& name, unsigned flags) {
  if ((flags & IFF_POINTOPOINT) != 0) return true;
  std::ifstream file("/sys/class/net/" + name + "/type");
  int type = ARPHRD_ETHER;
  file >> type;
  return type == ARPHRD_TUNNEL || type == ARPHRD_TUNNEL6 || type == ARPHRD_SIT || type == ARPHRD_IPGRE || type == ARPHRD_IP6GRE ||
         type == ARPHRD_NONE || access(("/sys/class/net/" + name + "/tun_flags").c_str(), F_OK) == 0;
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_interface_addresses() {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return errno_error("list the network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(head, freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const std::optional<Address> address = from_sockaddr(entry->ifa_addr);
    if (!address) continue;
    const std::string name = entry->ifa_name;
    all.push_back({.interface = name,
                   .address = *address,
                   .up = (entry->ifa_flags & IFF_UP) != 0,
                   .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                   .bridge = access(("/sys/class/net/" + name + "/bridge").c_str(), F_OK) == 0,
                   .tunnel = is_tunnel(name, entry->ifa_flags)});
  }
  return all;
}

Result<std::vector<Address>> choose_addresses(std::span<const InterfaceAddress> all, std::string_view ifname, std::string_view family) {
  ISTHMUS_ASSIGN(const uint8_t only_family, parse_family(family));
  const NameFilter filter(ifname);
  std::vector<std::pair<int, Address>> best;
  int best_group = INT32_MAX;
  for (const InterfaceAddress& entry : all) {
    if (!entry.up || (only_family != 0 && entry.address.family != only_family)) continue;
    const int group = group_of(entry, filter);
    if (group == kUnwanted || group > best_group) continue;
    if (group < best_group) best.clear();
    best_group = group;
    best.emplace_back(order_of(entry, filter), entry.address);
  }
  if (best.empty()) return nothing_matches(all, ifname, family);
  std::stable_sort(best.begin(), best.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Address> chosen;
  for (const auto& [order, address] : best) {
    if (std::find(chosen.begin(), chosen.end(), address) == chosen.end()) chosen.push_back(address);
  }
  return chosen;
}

}  // namespace isthmus::transport
