// SPDX-License-Identifier: Apache-2.0
// The meaning of the codecs that rotate nothing, one element or one block's scale at a time: the definition that the scalar target loops
// over, that device kernels share, and that every SIMD target matches bit for bit. Division is IEEE 754's, subnormals are kept. Nothing
// here can fail. Must not be included by the objects that are compiled for one instruction set: these are ordinary inline functions.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "codec/baseline.h"
#include "kernels/baseline_layout.h"
#include "kernels/thc_layout.h"

namespace isthmus::kernels {

/// The word of its tile, and the bits of that, which the rounding of the element at `position` depends on.
ISTHMUS_HOST_DEVICE constexpr uint32_t rounding_word(uint64_t position) { return static_cast<uint32_t>(position % kTileWords); }
ISTHMUS_HOST_DEVICE constexpr uint32_t rounding_bits(uint32_t word, uint64_t position) {
  return word >> (position % kRoundingTile / kTileWords * 16) & 0xffff;
}

/// A float32 as one of its two neighbours among bfloat16; `random` has 16 bits. What is added carries into the upper half with the
/// probability lower half / 2^16.
ISTHMUS_HOST_DEVICE inline uint32_t round_at_random(float value, uint32_t random) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = bits & kMagnitudeBits;
  if (magnitude > kInfinityBits) return BFloat16::kNan;
  const uint32_t sum = magnitude + random;
  const uint32_t upper = (magnitude < kInfinityBits && sum > kLargestBits ? kLargestBits : sum) >> 16;
  return upper == 0 ? 0 : upper | (bits >> 16 & BFloat16::kSign);
}

/// The code in two's complement in the lowest bits, with noise above. `inverse` is 1 / scale.
ISTHMUS_HOST_DEVICE inline uint32_t block_code(float value, float inverse) {
  const float scaled = value * inverse;
  const float sum = scaled + kCodeLever;
  return __builtin_bit_cast(uint32_t, sum);
}

}  // namespace isthmus::kernels
