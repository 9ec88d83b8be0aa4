// SPDX-License-Identifier: Apache-2.0
// Bytes as published test vectors print them. For base_crypto_test.cc and base_masking_test.cc.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace isthmus {

inline std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace isthmus
