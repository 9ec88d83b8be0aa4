// SPDX-License-Identifier: Apache-2.0
// Which site a frame goes to: a table of the Ethernet addresses that were seen to come from each, as in a switch. So IPv4, IPv6 and the
// searches for neighbours of both cross alike. Used by linkemu's loop and by unit tests. Pure; nothing here can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

namespace linkemu {

class Forwarding {
 public:
  /// What is shorter is no frame: two addresses and a type.
  static constexpr size_t kLeastBytes = 14;
  /// Addresses beyond are not remembered; frames to them go to every site.
  static constexpr size_t kMostAddresses = 4096;

  /// Remembers where the sender is. The site of the receiver, or nothing for all other sites.
  std::optional<size_t> route(size_t from, std::span<const std::byte> frame) {
    const uint64_t receiver = address(frame), sender = address(frame.subspan(kAddressBytes));
    if (!is_group(sender) && (sites_.size() < kMostAddresses || sites_.contains(sender))) sites_[sender] = from;
    if (is_group(receiver)) return std::nullopt;
    const auto found = sites_.find(receiver);
    return found == sites_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  static constexpr size_t kAddressBytes = 6;

  static uint64_t address(std::span<const std::byte> bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < kAddressBytes; ++i) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
    return value;
  }
  /// Broadcast and multicast: the lowest bit of the first byte.
  static bool is_group(uint64_t address) { return (address >> 40 & 1) != 0; }

  std::unordered_map<uint64_t, size_t> sites_;
};

}  // namespace linkemu
