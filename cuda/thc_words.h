// SPDX-License-Identifier: Apache-2.0
// Units of 64 encoded elements as 32-bit words, which is how threads read and write them; thc_layout.h says where the bits are, and
// tests compare with its byte-wise pack_unit. Used by the device code of the homomorphic codec. Nothing can fail.
//
// A unit of values of W bits is 2 W words: 2 p for each plane of p bits. Storage places 4 i to 4 i + 3 of a unit, elements i, 16 + i,
// 32 + i and 48 + i, are its column i; a word has one plane's bits of 8 / p columns, a byte of each for every element.
#pragma once

#include <cstdint>

#include "cuda/block.h"
#include "kernels/thc_layout.h"

namespace isthmus::cuda {

inline constexpr uint32_t kColumns = 16;  ///< of a unit, each of four values

/// Four values of 16 bits: those of elements i and 32 + i, low half first, and those of elements 16 + i and 48 + i.
struct ThcColumn {
  uint32_t even, odd;
};

ISTHMUS_DEVICE constexpr uint32_t value_of(const ThcColumn& column, uint32_t q) {
  return (q % 2 == 0 ? column.even : column.odd) >> (q / 2 * 16) & 0xffff;
}

ISTHMUS_DEVICE constexpr void put_value(ThcColumn& column, uint32_t q, uint32_t value) {
  (q % 2 == 0 ? column.even : column.odd) |= value << (q / 2 * 16);
}

/// Halves are added apart from each other, modulo 2^16.
ISTHMUS_DEVICE constexpr uint32_t add_halves(uint32_t a, uint32_t b) {
  return ((a & 0x7fff7fffU) + (b & 0x7fff7fffU)) ^ ((a ^ b) & 0x80008000U);
}

ISTHMUS_DEVICE constexpr ThcColumn add(const ThcColumn& a, const ThcColumn& b) {
  return {add_halves(a.even, b.even), add_halves(a.odd, b.odd)};
}

/// Column i of the unit that begins at `words`.
ISTHMUS_DEVICE constexpr ThcColumn unpack_column(const uint32_t* words, uint32_t width, uint32_t i) {
  ThcColumn column = {0, 0};
  for (uint32_t shift = 0; shift < width;) {
    const uint32_t bits = kernels::plane_bits(width - shift);
    const uint32_t mask = ((1U << bits) - 1) * 0x00010001U;
    const uint32_t fields = words[i % (2 * bits)] >> (i / (2 * bits) * bits);
    column.even |= (fields & mask) << shift;
    column.odd |= (fields >> 8 & mask) << shift;
    words += 2 * bits;
    shift += bits;
  }
  return column;
}

/// The word-th word of a unit; column(i) is its i-th column.
template <class Column>
ISTHMUS_DEVICE constexpr uint32_t pack_word(uint32_t word, uint32_t width, const Column& column) {
  uint32_t shift = 0, bits = kernels::plane_bits(width);
  while (word >= 2 * bits) {
    word -= 2 * bits;
    shift += bits;
    bits = kernels::plane_bits(width - shift);
  }
  const uint32_t mask = ((1U << bits) - 1) * 0x00010001U;
  uint32_t packed = 0;
  for (uint32_t field = 0; field < 8 / bits; ++field) {
    const ThcColumn values = column(2 * bits * field + word);
    packed |= ((values.even >> shift & mask) | (values.odd >> shift & mask) << 8) << (bits * field);
  }
  return packed;
}

}  // namespace isthmus::cuda
