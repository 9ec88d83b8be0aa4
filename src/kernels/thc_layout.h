// SPDX-License-Identifier: Apache-2.0
// Where things lie in a unit of 64 encoded elements, and which random word belongs to which element: constants that every target
// shares. Private to kernels/ and device code. constexpr functions of integers only; nothing can fail.
//
// Storage place 4 i + q of a unit holds element 16 q + i: four vectors of 16 floats become bytes by shifts alone. An encoded value
// of W bits is cut into planes of 8, 4, 2 and 1 bits, lowest first; byte j of a plane of p bits has, in its f-th p bits, the value at
// place 8 p f + j. So everything is packed and unpacked by shifts and masks, in vectors of any size.
#pragma once

#include <cstdint>

#include "base/float_types.h"

namespace isthmus::kernels {

/// Random words come in tiles: 16 consecutive Philox counters, words in the order 16 word + counter.
inline constexpr uint32_t kTileCounters = 16;
inline constexpr uint32_t kTileWords = 64;
inline constexpr uint32_t kSignTile = kTileWords * 32;   ///< elements whose signs are one tile, a bit each
inline constexpr uint32_t kDitherTile = kTileWords * 4;  ///< elements whose dither is one tile, a byte each
/// Elements whose rounding to bfloat16 is one tile: first the lower halves of all words, then the upper ones.
inline constexpr uint32_t kRoundingTile = kTileWords * 2;

/// Rounds of Philox. Seven pass every test of BigCrush (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 4);
/// ten would add a twelfth to what encoding takes.
inline constexpr uint32_t kPhiloxRounds = 7;

/// Separate domains of the generator. Signs, common dither and strata are the same on every rank.
enum class Stream : uint32_t { signs = 1, common_dither, private_dither, strata, rounding };

ISTHMUS_HOST_DEVICE constexpr uint32_t low_counter(uint64_t op) { return static_cast<uint32_t>(op); }
ISTHMUS_HOST_DEVICE constexpr uint32_t stream_counter(Stream stream, uint64_t op) {
  return static_cast<uint32_t>(op >> 32) << 8 | static_cast<uint32_t>(stream);
}

/// The element of a unit at a storage place.
ISTHMUS_HOST_DEVICE constexpr uint32_t element_at(uint32_t place) { return place % 4 * 16 + place / 4; }

/// Bits of the next plane where `left` bits of the value are left.
ISTHMUS_HOST_DEVICE constexpr uint32_t plane_bits(uint32_t left) { return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1; }

}  // namespace isthmus::kernels
