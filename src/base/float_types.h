// SPDX-License-Identifier: Apache-2.0
// The narrow floating-point formats and their bit-exact conversions to and from float32. Used by kernels/ (scalar target, and the
// definition that every SIMD target is tested against), by tools that print or fill buffers, and by device code. Nothing can fail.
//
//   Float16      IEEE binary16               overflow gives infinity
//   BFloat16     the upper half of float32   overflow gives infinity
//   Float8E4M3   OCP e4m3, no infinity       overflow and infinity give +-448
//   Float8E5M2   OCP e5m2                    finite overflow gives +-57344, infinity stays
//
// Rounding is to nearest, ties to even, in integer arithmetic: the caller's rounding mode does not matter. Subnormals are kept.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define ISTHMUS_HOST_DEVICE __host__ __device__
#else
#define ISTHMUS_HOST_DEVICE
#endif

namespace isthmus {

/// What a value beyond the largest finite one becomes.
enum class Overflow : uint8_t {
  infinity,         ///< as IEEE 754
  saturate,         ///< the largest finite value; infinity itself stays infinity
  saturate_no_inf,  ///< the largest finite value; the format has no infinity and one NaN (all ones)
};

/// A sign, `kExponent` exponent and `kMantissa` mantissa bits. An aggregate of exactly its storage, so arrays of it alias user buffers.
template <int kExponent, int kMantissa, Overflow kOverflow>
struct Minifloat {
  static constexpr int kBits = 1 + kExponent + kMantissa;
  using Storage = std::conditional_t<kBits == 8, uint8_t, uint16_t>;
  static_assert(kBits == 8 || kBits == 16);

  static constexpr int kExponentBits = kExponent;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr Overflow kOverflowRule = kOverflow;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (kBits - 1);
  static constexpr uint32_t kMagnitude = kSign - 1;
  static constexpr bool kHasInfinity = kOverflow != Overflow::saturate_no_inf;
  static constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;                      ///< meaningful with kHasInfinity
  static constexpr uint32_t kMax = kHasInfinity ? kInfinity - 1 : kMagnitude - 1;                  ///< the largest finite magnitude
  static constexpr uint32_t kNan = kBits == 8 ? kMagnitude : kInfinity | (1u << (kMantissa - 1));  ///< the canonical NaN

  Storage bits;

  /// The nearest value; every NaN becomes the canonical NaN.
  ISTHMUS_HOST_DEVICE static constexpr Minifloat from_float(float value) {
    const uint32_t source = __builtin_bit_cast(uint32_t, value);
    const uint32_t magnitude = source & 0x7fffffffu;
    if (magnitude > kFloatInfinity) return {static_cast<Storage>(kNan)};
    const uint32_t sign = (source >> 31) << (kBits - 1);
    return {static_cast<Storage>(sign | narrow(magnitude))};
  }

  /// Exact; a NaN becomes some NaN.
  ISTHMUS_HOST_DEVICE [[nodiscard]] constexpr float to_float() const {
    const uint32_t sign = (bits & kSign) << (32 - kBits);
    return __builtin_bit_cast(float, sign | widen(bits & kMagnitude));
  }

  friend constexpr bool operator==(Minifloat, Minifloat) = default;  ///< compares bits

 private:
  static constexpr uint32_t kFloatInfinity = 0x7f800000u;
  static constexpr uint32_t kFloatNan = 0x7fc00000u;
  static constexpr int kShift = 23 - kMantissa;          ///< mantissa bits that float32 has more
  static constexpr uint32_t kMinExponent = 128 - kBias;  ///< float32's field of the least normal value
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;

  /// value / 2^shift, to nearest, ties to even; 1 <= shift <= 31.
  ISTHMUS_HOST_DEVICE static constexpr uint32_t shift_to_nearest(uint32_t value, uint32_t shift) {
    const uint32_t odd = (value >> shift) & 1u;
    return (value + (1u << (shift - 1)) - 1 + odd) >> shift;
  }

  /// A finite or infinite float32 magnitude to this format's. A carry out of the mantissa is the next exponent, as it should be.
  ISTHMUS_HOST_DEVICE static constexpr uint32_t narrow(uint32_t magnitude) {
    if (magnitude == kFloatInfinity) return kHasInfinity ? kInfinity : kMax;
    const uint32_t exponent = magnitude >> 23;
    if (exponent < kMinExponent) return narrow_subnormal(magnitude, exponent);
    const uint32_t rounded = shift_to_nearest(magnitude - kRebias, kShift);
    if (rounded <= kMax) return rounded;
    return kOverflow == Overflow::infinity ? kInfinity : kMax;
  }

  ISTHMUS_HOST_DEVICE static constexpr uint32_t narrow_subnormal(uint32_t magnitude, uint32_t exponent) {
    const uint32_t fraction = magnitude & 0x7fffffu;
    const uint32_t significand = exponent == 0 ? fraction : fraction | 0x800000u;
    const uint32_t shift = kShift + kMinExponent - (exponent == 0 ? 1 : exponent);
    return shift > 25 ? 0 : shift_to_nearest(significand, shift);
  }

  ISTHMUS_HOST_DEVICE static constexpr uint32_t widen(uint32_t magnitude) {
    if constexpr (kExponent == 8) {
      return magnitude << kShift;  // float32's own exponent range
    } else {
      if (kHasInfinity ? magnitude > kInfinity : magnitude == kNan) return kFloatNan;
      if (kHasInfinity && magnitude == kInfinity) return kFloatInfinity;
      if (magnitude >> kMantissa == 0) return __builtin_bit_cast(uint32_t, static_cast<float>(magnitude) * kLeast);
      return (magnitude << kShift) + kRebias;
    }
  }

  /// The least subnormal value (unused with float32's exponent range, where it would be subnormal itself).
  static constexpr float kLeast = __builtin_bit_cast(float, static_cast<uint32_t>(kExponent == 8 ? 1 : 128 - kBias - kMantissa) << 23);
};

using Float16 = Minifloat<5, 10, Overflow::infinity>;
using BFloat16 = Minifloat<8, 7, Overflow::infinity>;
using Float8E4M3 = Minifloat<4, 3, Overflow::saturate_no_inf>;
using Float8E5M2 = Minifloat<5, 2, Overflow::saturate>;

template <typename T>
inline constexpr bool kIsMinifloat = false;
template <int kExponent, int kMantissa, Overflow kOverflow>
inline constexpr bool kIsMinifloat<Minifloat<kExponent, kMantissa, kOverflow>> = true;

}  // namespace isthmus
