// SPDX-License-Identifier: Apache-2.0
// unique_id.h. Pure.
#include "bootstrap/unique_id.h"

#include <algorithm>
#include <cassert>

#include "base/bytes.h"
#include "base/hash.h"

namespace isthmus::bootstrap {
namespace {

constexpr uint64_t kMagic = 0x31444973756d6874;  // "thmusID1" on the wire
constexpr size_t kUsedBytes = 125;

void write_address(const transport::Address& address, Writer& writer) {
  writer.fill(address.bytes).u16(address.port).u32(address.scope).u8(address.family);
}

transport::Address read_address(Reader& reader) {
  transport::Address address;
  reader.fill(address.bytes);
  address.port = reader.u16();
  address.scope = reader.u32();
  address.family = reader.u8();
  if (address.family != 0 && address.family != 4 && address.family != 6) reader.fail();
  return address;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

PackedId pack(const UniqueId& id) {
  PackedId bytes{};
  Writer writer(bytes);
  writer.u64(kMagic).fill(id.nonce).fill(id.secret);
  for (const transport::Address& root : id.roots) write_address(root, writer);
  assert(writer.written() == kUsedBytes);
  return bytes;
}

Result<UniqueId> unpack(std::span<const std::byte, 128> bytes) {
  Reader reader(bytes);
  if (reader.u64() != kMagic) {
    return invalid_argument("this ncclUniqueId was not made by Isthmus: do all ranks load the same library, and was it passed on whole?");
  }
  UniqueId id;
  reader.fill(id.nonce);
  reader.fill(id.secret);
  for (transport::Address& root : id.roots) root = read_address(reader);
  const bool reachable = std::any_of(id.roots.begin(), id.roots.end(), [](const auto& root) { return root.family != 0; });
  if (!reader.ok() || !reachable || !all_zero(reader.bytes(reader.remaining()))) return invalid_argument("this ncclUniqueId is damaged");
  return id;
}

Result<UniqueId> fresh_id(const RandomSource& random) {
  UniqueId id;
  ISTHMUS_TRY(random(id.secret));
  ISTHMUS_TRY(random(id.nonce));
  return id;
}

uint64_t rendezvous_number(const UniqueId& id) { return Hasher().add("isthmus rendezvous").add(id.nonce).value(); }

Key rendezvous_key(const Crypto& crypto, const UniqueId& id) { return derive_key(crypto, id.secret, "isthmus rendezvous"); }

uint64_t communicator_number(const Session& session) { return Hasher().add("isthmus communicator").add(session).value(); }

Key session_key(const Crypto& crypto, const Key& secret, const Session& session, std::string_view use) {
  const Key of_session = crypto.hmac(derive_key(crypto, secret, "isthmus session"), session);
  return derive_key(crypto, of_session, use);
}

}  // namespace isthmus::bootstrap
