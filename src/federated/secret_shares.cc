// SPDX-License-Identifier: Apache-2.0
// secret_shares.h.
#include "federated/secret_shares.h"

namespace isthmus::federated {
namespace {

/// In the field of AES: modulo x^8 + x^4 + x^3 + x + 1. Neither branches nor looks anything up.
uint8_t times(uint8_t a, uint8_t b) {
  uint32_t product = 0, shifted = a;
  for (int bit = 0; bit < 8; ++bit) {
    product ^= shifted & (0U - (b >> bit & 1U));
    shifted = (shifted << 1 ^ (0x11bU & (0U - (shifted >> 7)))) & 0x1ffU;
  }
  return static_cast<uint8_t>(product);
}

/// 1 / a: a^254.
uint8_t inverse(uint8_t a) {
  uint8_t result = 1, power = a;
  for (int bit = 1; bit < 8; ++bit) {
    power = times(power, power);
    result = times(result, power);
  }
  return result;
}

uint8_t at(const Secret& secret, size_t i) { return std::to_integer<uint8_t>(secret.bytes()[i]); }

}  // namespace

std::vector<Share> split_secret(const Secret& secret, std::span<const Secret> noise, uint32_t count) {
  std::vector<Share> shares(count);
  for (uint32_t n = 0; n < count; ++n) {
    Share& share = shares[n];
    share.number = static_cast<uint8_t>(n + 1);
    for (size_t i = 0; i < sizeof(Key); ++i) {
      uint8_t value = 0;
      for (size_t power = noise.size(); power > 0; --power)
        value = times(static_cast<uint8_t>(value ^ at(noise[power - 1], i)), share.number);
      share.value.bytes()[i] = std::byte{static_cast<uint8_t>(value ^ at(secret, i))};
    }
  }
  return shares;
}

Secret join_shares(std::span<const Share> shares) {
  Secret secret;
  for (const Share& share : shares) {
    uint8_t weight = 1;  // of this share in the polynomial's value at 0
    for (const Share& other : shares) {
      if (other.number == share.number) continue;
      weight = times(weight, times(other.number, inverse(static_cast<uint8_t>(other.number ^ share.number))));
    }
    for (size_t i = 0; i < sizeof(Key); ++i) secret.bytes()[i] ^= std::byte{times(weight, at(share.value, i))};
  }
  return secret;
}

}  // namespace isthmus::federated
