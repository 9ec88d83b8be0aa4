// SPDX-License-Identifier: Apache-2.0
// Layout: count u8, then per address family u8, port u16, scope u32, 16 bytes of address.
#include "transport/tcp/blob.h"

#include <algorithm>

#include "base/bytes.h"

namespace isthmus::transport {

namespace {
constexpr size_t kAddressBytes = 1 + 2 + 4 + 16;
}

std::vector<std::byte> encode_addresses(std::span<const Address> addresses) {
  const auto told = addresses.first(std::min(addresses.size(), kMaxBlobAddresses));
  std::vector<std::byte> blob(1 + told.size() * kAddressBytes);
  Writer writer(blob);
  writer.u8(static_cast<uint8_t>(told.size()));
  for (const Address& address : told) writer.u8(address.family).u16(address.port).u32(address.scope).fill(address.bytes);
  return blob;
}

Result<std::vector<Address>> decode_addresses(std::span<const std::byte> blob) {
  Reader reader(blob);
  std::vector<Address> addresses;
  for (size_t count = reader.u8(); count > 0 && reader.ok(); --count) {
    Address address;
    address.family = reader.u8();
    address.port = reader.u16();
    address.scope = reader.u32();
    reader.fill(address.bytes);
    if ((address.family != 4 && address.family != 6) || address.port == 0) reader.fail();
    addresses.push_back(address);
  }
  if (!reader.finished() || addresses.empty() || addresses.size() > kMaxBlobAddresses) {
    return remote_error("the peer told malformed addresses");
  }
  return addresses;
}

}  // namespace isthmus::transport
