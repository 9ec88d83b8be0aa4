// SPDX-License-Identifier: Apache-2.0
// The 128 bytes of ncclUniqueId, which a program may have carried any way it liked.
#include "bootstrap/unique_id.h"

#include <algorithm>

#include "target.h"

namespace isthmus::fuzz {

void run(Input input) {
  if (input.size() < 128) return;
  const auto id = bootstrap::unpack(input.first<128>());
  if (!id.ok()) return;
  const auto has_family = [](const transport::Address& address) { return address.family == 4 || address.family == 6; };
  promise(std::any_of(id->roots.begin(), id->roots.end(), has_family), "an id says where the root is");
  const auto again = bootstrap::unpack(bootstrap::pack(*id));
  promise(again.ok() && *again == *id, "an id survives");
}

std::vector<Bytes> seeds() {
  bootstrap::UniqueId id;
  id.secret.fill(std::byte{1});
  id.nonce.fill(std::byte{2});
  std::vector<Bytes> all;
  const char* const addresses[] = {"10.0.0.1:4000", "[fe80::1%2]:4000", "127.0.0.1:1"};
  for (size_t roots = 0; roots < bootstrap::UniqueId::kRoots; ++roots) {
    id.roots[roots] = transport::parse_address(addresses[roots]).value();
    all.push_back(to_bytes(bootstrap::pack(id)));
  }
  return all;
}

}  // namespace isthmus::fuzz
