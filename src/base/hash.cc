// SPDX-License-Identifier: Apache-2.0
// The one place that includes xxHash, inline and with internal linkage, so that no symbol of it leaves this object.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace isthmus {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

uint64_t hash_combine(uint64_t hash, uint64_t value) {
  std::array<std::byte, sizeof(value)> buffer;
  Writer(buffer).u64(value);
  return hash_bytes(buffer, hash);
}

}  // namespace isthmus
