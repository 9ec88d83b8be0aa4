// SPDX-License-Identifier: Apache-2.0
// 64-bit hashing (XXH3), the same on every machine. Used for call keys, plan hashes, host identities and caches; never where an
// adversary must be kept out (that is crypto.h). Cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/bytes.h"

namespace isthmus {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);
inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) { return hash_bytes(as_bytes(text), seed); }
/// Depends on the order: combine(combine(0, a), b) != combine(combine(0, b), a).
uint64_t hash_combine(uint64_t hash, uint64_t value);

template <typename T>
concept Scalar = std::is_integral_v<T> || std::is_enum_v<T>;

/// Hashes a sequence of fields: Hasher().add(count).add(name).value(). Texts and byte runs are delimited by their length, so
/// ("ab", "c") and ("a", "bc") differ.
class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0) : hash_(seed) {}

  template <Scalar T>
  Hasher& add(T value) {
    hash_ = hash_combine(hash_, static_cast<uint64_t>(value));
    return *this;
  }
  Hasher& add(std::span<const std::byte> bytes) {
    add(bytes.size());
    hash_ = hash_bytes(bytes, hash_);
    return *this;
  }
  Hasher& add(std::string_view text) { return add(as_bytes(text)); }

  [[nodiscard]] uint64_t value() const { return hash_; }

 private:
  uint64_t hash_;
};

}  // namespace isthmus
