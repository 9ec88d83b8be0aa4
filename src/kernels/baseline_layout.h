// SPDX-License-Identifier: Apache-2.0
// What every target of the codecs that rotate nothing shares: constants, and scales. Private to kernels/ and device code. constexpr
// functions only, of which nothing remains in an object; division is IEEE 754's. Nothing can fail.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "codec/baseline.h"

namespace isthmus::kernels {

// Bits of float32.
inline constexpr uint32_t kMagnitudeBits = 0x7fffffff;
inline constexpr uint32_t kInfinityBits = 0x7f800000;
inline constexpr uint32_t kLargestBits = 0x7f7fffff;  ///< the largest finite one; its upper half is the largest finite bfloat16

/// 3 * 2^22: its unit is one, so what is added to it is rounded there, to nearest even, and its lowest bits are that integer.
inline constexpr float kCodeLever = 12582912.0F;

/// The least normal bfloat16.
inline constexpr uint32_t kLeastScale = 0x0080;

/// The largest bfloat16 that the largest code can be multiplied by.
ISTHMUS_HOST_DEVICE constexpr uint32_t largest_scale(uint32_t bits) {
  const float most = __builtin_bit_cast(float, kLargestBits) / static_cast<float>(codec::largest_code(bits));
  return __builtin_bit_cast(uint32_t, most) >> 16;
}

/// The scale, as bfloat16, of a block whose largest magnitude has these bits. Rounded up, so that no code exceeds the largest, but not
/// beyond what the largest code can be multiplied by, and to a normal number, so that its inverse is one.
ISTHMUS_HOST_DEVICE constexpr uint32_t block_scale(uint32_t largest, uint32_t bits) {
  if (largest >= kInfinityBits) return BFloat16::kNan;
  const float quotient = __builtin_bit_cast(float, largest) / static_cast<float>(codec::largest_code(bits));
  const uint32_t up = (__builtin_bit_cast(uint32_t, quotient) + 0xffff) >> 16;
  if (up > largest_scale(bits)) return largest_scale(bits);
  return up < kLeastScale && largest != 0 ? kLeastScale : up;
}

/// The factor that codes are multiplied by, from the scale's bits: the canonical NaN for all that is not finite.
ISTHMUS_HOST_DEVICE constexpr float scale_factor(uint32_t scale) {
  const bool finite = (scale & BFloat16::kMagnitude) < BFloat16::kInfinity;
  return __builtin_bit_cast(float, (finite ? scale : uint32_t{BFloat16::kNan}) << 16);
}

}  // namespace isthmus::kernels
