// SPDX-License-Identifier: Apache-2.0
// Integers of k bits, as masked sums carry them: how wide they must be, how they travel packed, their sums modulo 2^k. Used by both ends
// of an aggregator (aggregate_round.h, contribution.h) and by masks. Pure values; nothing here can fail.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace isthmus::federated {

inline constexpr uint32_t kMaxWordBits = 32;

/// Bits for which the sum of `summands` numbers of at most `largest` does not wrap: the least k with 2^k > summands * largest.
constexpr uint32_t word_bits(uint64_t summands, uint64_t largest) { return static_cast<uint32_t>(std::bit_width(summands * largest)); }

constexpr uint32_t word_mask(uint32_t bits) { return bits >= kMaxWordBits ? ~0U : (1U << bits) - 1; }

constexpr size_t packed_bytes(uint64_t words, uint32_t bits) { return static_cast<size_t>((words * bits + 7) / 8); }

/// packed <- the lowest `bits` (1 to 32) bits of every word, one after the other from the lowest bit of the first byte; the last byte is
/// filled up with zeros. packed has packed_bytes.
void pack_words(std::span<const uint32_t> words, uint32_t bits, std::span<std::byte> packed);
void unpack_words(std::span<const std::byte> packed, uint32_t bits, std::span<uint32_t> words);

/// sums[i] += words[i]; beyond the width of interest bits are whatever they become.
void add_words(std::span<uint32_t> sums, std::span<const uint32_t> words);
/// The same of packed words.
void add_packed(std::span<uint32_t> sums, std::span<const std::byte> packed, uint32_t bits);

}  // namespace isthmus::federated
