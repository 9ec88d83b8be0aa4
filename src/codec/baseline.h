// SPDX-License-Identifier: Apache-2.0
// The encoded layouts of the codecs that rotate nothing: bf16 (two bytes an element, in order) and blocks of 32 elements: one bfloat16
// scale, then 32 codes of 8 or 4 bits in two's complement. Read by codec.cc and kernels/. Nothing here can fail.
//
// Code place 4 i + q of a block holds element 8 q + i, so that words of four codes are packed from vectors of 4 or 8 elements by shifts
// alone. With 8 bits, byte j is the code at place j; with 4, its lower half is the code at place j and its upper one that at 16 + j.
#pragma once

#include <cstdint>

#include "base/float_types.h"

namespace isthmus::codec {

inline constexpr uint16_t kBf16Id = 1, kInt8Id = 2, kInt4Id = 3;
inline constexpr uint32_t kBlockElements = 32;
inline constexpr uint32_t kScaleBytes = 2;

/// Bytes of one block of codes of `bits` bits, its scale among them.
ISTHMUS_HOST_DEVICE constexpr uint32_t block_stride(uint32_t bits) { return kScaleBytes + kBlockElements / 8 * bits; }

/// The largest code of `bits` bits; the least is its negative.
ISTHMUS_HOST_DEVICE constexpr uint32_t largest_code(uint32_t bits) { return (1U << (bits - 1)) - 1; }

/// The element of a block whose code is at that place.
ISTHMUS_HOST_DEVICE constexpr uint32_t coded_element(uint32_t place) { return place % 4 * 8 + place / 4; }

}  // namespace isthmus::codec
