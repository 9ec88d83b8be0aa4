// SPDX-License-Identifier: Apache-2.0
// What masks over sums are made of: secrets that are wiped, key agreement, key derivation, key streams, sealed messages; OpenSSL's, loaded
// when first needed and never linked. Used by federated/. Loading fails where libcrypto is missing or lacks one of these; operations fail
// for lack of memory or on what a peer sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/crypto.h"
#include "base/status.h"

namespace isthmus {

/// Overwrites memory so that no compiler leaves it out.
void wipe(std::span<std::byte> memory);

/// 32 bytes that are nobody's business: wiped when they go.
class Secret {
 public:
  Secret() = default;
  explicit Secret(const Key& bytes) : bytes_(bytes) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret() { wipe(bytes_); }

  [[nodiscard]] const Key& bytes() const { return bytes_; }
  [[nodiscard]] Key& bytes() { return bytes_; }

 private:
  Key bytes_{};
};

class Masking {
 public:
  static constexpr size_t kTagBytes = 16;

  /// libcrypto's, loaded once per process. Valid for the life of the process.
  static Result<const Masking*> load();

  /// X25519 (RFC 7748): the public key of a secret, and what two sides have in common. remote_error: no public key.
  [[nodiscard]] Result<Key> public_of(const Secret& secret) const;
  [[nodiscard]] Result<Secret> agree(const Secret& mine, const Key& theirs) const;
  /// HKDF-SHA-256 (RFC 5869) without salt, 32 bytes: many independent keys from one secret.
  [[nodiscard]] Secret derive(std::span<const std::byte> secret, std::span<const std::byte> info) const;
  [[nodiscard]] Key hmac(const Key& key, std::span<const std::byte> data) const { return crypto_->hmac(key, data); }
  /// out <- ChaCha20 (RFC 8439): a function of key and number alone.
  Status key_stream(const Secret& key, uint64_t number, std::span<std::byte> out) const;
  /// ChaCha20-Poly1305 (RFC 8439) under a key that seals one message only: out <- text and a tag of kTagBytes.
  Status seal(const Secret& key, std::span<const std::byte> text, std::span<std::byte> out) const;
  /// out <- the text. remote_error: this was not sealed under this key.
  Status open(const Secret& key, std::span<const std::byte> sealed, std::span<std::byte> out) const;

  /// libcrypto's functions that this stands on.
  struct Functions;

 private:
  Masking(const Crypto& crypto, const Functions& functions) : crypto_(&crypto), functions_(&functions) {}

  const Crypto* crypto_;
  const Functions* functions_;
};

}  // namespace isthmus
