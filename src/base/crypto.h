// SPDX-License-Identifier: Apache-2.0
// The few cryptographic operations that trust rests on, from OpenSSL's libcrypto, which is loaded when first needed and never
// linked. Used by wire/ (handshake) and bootstrap/ (key derivation). Loading fails, naming the package to install, where libcrypto
// is missing; random bytes come from the kernel and need no library.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/status.h"

namespace isthmus {

/// A secret or a tag of 32 bytes.
using Key = std::array<std::byte, 32>;

class Crypto {
 public:
  virtual ~Crypto() = default;
  /// HMAC-SHA-256 (RFC 2104).
  [[nodiscard]] virtual Key hmac(const Key& key, std::span<const std::byte> data) const = 0;

  /// libcrypto's, loaded once per process. Valid for the life of the process.
  static Result<const Crypto*> load();
  /// For ISTHMUS_AUTH=none: every tag is zero, so everybody is accepted. Says nothing and needs nothing.
  static const Crypto& none();
};

/// key <- HMAC(secret, label): one secret, many independent keys.
Key derive_key(const Crypto& crypto, const Key& secret, std::string_view label);
/// Compares without telling by its duration where they differ.
bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);
/// Kernel randomness (getrandom). Fails only where the kernel refuses.
Status random_bytes(std::span<std::byte> out);

}  // namespace isthmus
