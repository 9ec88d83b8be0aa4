// SPDX-License-Identifier: Apache-2.0
// words.h.
#include "federated/words.h"

#include <cstring>

namespace isthmus::federated {
namespace {

/// Calls take(index, word) for every word.
template <typename Take>
void for_each_word(std::span<const std::byte> packed, uint32_t bits, size_t count, const Take& take) {
  const uint32_t mask = word_mask(bits);
  uint64_t held = 0;
  uint32_t held_bits = 0;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    while (held_bits < bits) {
      if (held_bits <= 32 && at + 4 <= packed.size()) {
        uint32_t next = 0;
        std::memcpy(&next, packed.data() + at, 4);  // little-endian hosts only, as everywhere here
        held |= uint64_t{next} << held_bits;
        held_bits += 32;
        at += 4;
      } else {
        held |= std::to_integer<uint64_t>(packed[at++]) << held_bits;
        held_bits += 8;
      }
    }
    take(i, static_cast<uint32_t>(held) & mask);
    held >>= bits;
    held_bits -= bits;
  }
}

}  // namespace

void pack_words(std::span<const uint32_t> words, uint32_t bits, std::span<std::byte> packed) {
  const uint32_t mask = word_mask(bits);
  uint64_t held = 0;
  uint32_t held_bits = 0;
  size_t at = 0;
  for (const uint32_t word : words) {
    held |= uint64_t{word & mask} << held_bits;
    held_bits += bits;
    for (; held_bits >= 8; held_bits -= 8, held >>= 8) packed[at++] = static_cast<std::byte>(held);
  }
  if (held_bits > 0) packed[at] = static_cast<std::byte>(held);
}

void unpack_words(std::span<const std::byte> packed, uint32_t bits, std::span<uint32_t> words) {
  for_each_word(packed, bits, words.size(), [&](size_t i, uint32_t word) { words[i] = word; });
}

void add_words(std::span<uint32_t> sums, std::span<const uint32_t> words) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += words[i];
}

void add_packed(std::span<uint32_t> sums, std::span<const std::byte> packed, uint32_t bits) {
  for_each_word(packed, bits, sums.size(), [&](size_t i, uint32_t word) { sums[i] += word; });
}

}  // namespace isthmus::federated
