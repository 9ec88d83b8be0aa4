// SPDX-License-Identifier: Apache-2.0
// How elements of every type become vectors of their compute type and go back, for one instruction set. Included only by
// simd_reduce.h, inside objects compiled for that set; everything is in an unnamed namespace so that no other object can end up with
// code for the wrong CPU. Nothing here can fail.
//
// A *block* is what one step of a loop works on: `kBytes` bytes of memory as some vectors. `store` rounds once and makes NaNs
// canonical. kBytes is the instruction set's vector size, or any smaller power of two for what remains at the end. Narrow floats are
// handled in place: with W bits an element, part j of a block holds elements j, j + 32/W, ... of the memory, that is, the j-th W bits of
// every 32-bit lane; no element ever changes its lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>
#include "base/float_types.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class V, size_t kParts>
struct Block {
  V part[kParts];
};

/// Integers, float32 and float64: computed as they are.
template <typename T, size_t kBlockBytes = HWY_MAX_BYTES>
struct NativeLanes {
  using Element = T;
  using Compute = T;
  using D = hn::CappedTag<T, kBlockBytes / sizeof(T)>;
  using V = hn::Vec<D>;
  using Values = Block<V, 1>;
  using Half = NativeLanes<T, kBlockBytes / 2>;
  static constexpr size_t kBytes = kBlockBytes;
  static constexpr size_t kLeastBytes = sizeof(T) < 4 ? 4 : sizeof(T);

  static HWY_INLINE Values load(const void* from) { return {{hn::LoadU(D(), static_cast<const T*>(from))}}; }
  static HWY_INLINE void store(void* to, const Values& values) { hn::StoreU(canonical(values.part[0]), D(), static_cast<T*>(to)); }

 private:
  static HWY_INLINE V canonical(V v) {
    if constexpr (std::is_floating_point_v<T>) {
      return hn::IfThenElse(hn::IsNaN(v), hn::Set(D(), static_cast<T>(__builtin_nanf(""))), v);
    } else {
      return v;
    }
  }
};

/// One narrow float per 32-bit lane to float32 and back, for formats with fewer exponent bits than float32.
template <class F, size_t kLanes>
struct NarrowCoder {
  using DF = hn::CappedTag<float, kLanes>;
  using DI = hn::CappedTag<int32_t, kLanes>;
  using VF = hn::Vec<DF>;
  using VI = hn::Vec<DI>;

  /// `top` holds the element in its highest bits and zeros below. Subnormals become normal by subtracting the leading one that
  /// they were lent, which is exact.
  static HWY_INLINE VF decode(VI top) {
    const DF df;
    const DI di;
    const VI sign = hn::And(top, hn::Set(di, kSign));
    const VI magnitude = hn::ShiftRight<8 - F::kExponentBits>(hn::AndNot(hn::Set(di, kSign), top));  // exponent at float32's place
    const VI subnormal = hn::VecFromMask(di, hn::Lt(magnitude, hn::Set(di, kExponentUnit)));
    const VI lent = hn::And(subnormal, hn::Set(di, kExponentUnit));
    const VF raised = hn::BitCast(df, hn::Add(magnitude, hn::Add(lent, hn::Set(di, kRebias))));
    const VF value = hn::Sub(raised, hn::BitCast(df, hn::And(subnormal, hn::Set(di, kMinNormal))));
    const VI special = hn::VecFromMask(di, hn::Gt(magnitude, hn::Set(di, static_cast<int32_t>(F::kMax << kShift))));
    return hn::BitCast(df, hn::Or(hn::Or(hn::BitCast(di, value), sign), hn::And(special, hn::Set(di, kFloatInfinity))));
  }

  /// The element in the lowest bits and zeros above. Adding 2^(23 - mantissa bits) times the value's own power of two makes the float
  /// adder round at the right bit; what this adds to the sum's bits is the rounded significand.
  static HWY_INLINE VI encode(VF value) {
    const DF df;
    const DI di;
    const VI bits = hn::BitCast(di, value);
    const VI magnitude = hn::AndNot(hn::Set(di, kSign), bits);
    const VI bounded = hn::Min(magnitude, hn::Set(di, kCeiling));
    const VI exponent = hn::Max(hn::And(bounded, hn::Set(di, kFloatInfinity)), hn::Set(di, kMinNormal));
    const VI lever = hn::Add(exponent, hn::Set(di, kShift << 23));
    const VI sum = hn::BitCast(di, hn::Add(hn::BitCast(df, bounded), hn::BitCast(df, lever)));
    VI code = hn::Add(hn::ShiftRight<kShift>(hn::Sub(exponent, hn::Set(di, kMinNormal))), hn::Sub(sum, lever));
    if constexpr (F::kOverflowRule == Overflow::saturate) {
      const auto infinite = hn::Eq(magnitude, hn::Set(di, kFloatInfinity));
      code = hn::IfThenElse(infinite, hn::Set(di, static_cast<int32_t>(F::kInfinity)), code);
    }
    const VI sign = hn::And(hn::ShiftRight<32 - F::kBits>(bits), hn::Set(di, static_cast<int32_t>(F::kSign)));
    const auto is_nan = hn::Gt(magnitude, hn::Set(di, kFloatInfinity));
    return hn::IfThenElse(is_nan, hn::Set(di, static_cast<int32_t>(F::kNan)), hn::Or(code, sign));
  }

 private:
  static constexpr int kShift = 23 - F::kMantissaBits;
  static constexpr int32_t kSign = INT32_MIN;
  static constexpr int32_t kExponentUnit = 1 << 23;
  static constexpr int32_t kFloatInfinity = 0x7f800000;
  static constexpr int32_t kRebias = (127 - F::kBias) << 23;
  static constexpr int32_t kMinNormal = (128 - F::kBias) << 23;  ///< float32 bits of the least normal value
  /// float32 bits of the largest finite value, or of the power of two after it where that is infinity's code.
  static constexpr int32_t kCeiling =
      static_cast<int32_t>((F::kOverflowRule == Overflow::infinity ? F::kInfinity : F::kMax) << kShift) + kRebias;
};

/// Narrow floats with fewer exponent bits than float32, 2 or 4 in every 32-bit lane.
template <class F, size_t kBlockBytes = HWY_MAX_BYTES>
struct PackedLanes {
  using Element = F;
  using Compute = float;
  using Coder = NarrowCoder<F, kBlockBytes / 4>;
  using D = typename Coder::DF;
  using V = typename Coder::VF;
  using DI = typename Coder::DI;
  using VI = typename Coder::VI;
  static constexpr size_t kParts = 32 / F::kBits;
  using Values = Block<V, kParts>;
  using Half = PackedLanes<F, kBlockBytes / 2>;
  static constexpr size_t kBytes = kBlockBytes;
  static constexpr size_t kLeastBytes = 4;

  static HWY_INLINE Values load(const void* from) {
    const VI words = hn::LoadU(DI(), static_cast<const int32_t*>(from));
    if constexpr (kParts == 2) {
      return {{extract<0>(words), extract<1>(words)}};
    } else {
      return {{extract<0>(words), extract<1>(words), extract<2>(words), extract<3>(words)}};
    }
  }

  static HWY_INLINE void store(void* to, const Values& values) {
    VI words = hn::Or(place<0>(values.part[0]), place<1>(values.part[1]));
    if constexpr (kParts == 4) words = hn::Or(words, hn::Or(place<2>(values.part[2]), place<3>(values.part[3])));
    hn::StoreU(words, DI(), static_cast<int32_t*>(to));
  }

 private:
  template <int kPart>
  static HWY_INLINE V extract(VI words) {
    const VI top = hn::ShiftLeft<32 - F::kBits*(kPart + 1)>(words);
    if constexpr (kPart == 0) return Coder::decode(top);
    return Coder::decode(hn::And(top, hn::Set(DI(), -(1 << (32 - F::kBits)))));
  }
  template <int kPart>
  static HWY_INLINE VI place(V value) {
    return hn::ShiftLeft<F::kBits * kPart>(Coder::encode(value));
  }
};

/// bfloat16 is the upper half of a float32: two in every 32-bit lane, with fewer instructions than PackedLanes would need.
template <size_t kBlockBytes = HWY_MAX_BYTES>
struct BFloat16Lanes {
  using Element = BFloat16;
  using Compute = float;
  using D = hn::CappedTag<float, kBlockBytes / 4>;
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  using DH = hn::Repartition<uint16_t, D>;
  using Values = Block<V, 2>;
  using Half = BFloat16Lanes<kBlockBytes / 2>;
  static constexpr size_t kBytes = kBlockBytes;
  static constexpr size_t kLeastBytes = 4;

  static HWY_INLINE Values load(const void* from) {
    const VI words = hn::LoadU(DI(), static_cast<const int32_t*>(from));
    const VI upper = hn::And(words, hn::Set(DI(), -0x10000));
    return {{hn::BitCast(D(), hn::ShiftLeft<16>(words)), hn::BitCast(D(), upper)}};
  }
  static HWY_INLINE void store(void* to, const Values& values) {
    const auto even = hn::BitCast(DH(), hn::ShiftRight<16>(rounded(values.part[0])));
    const auto odd = hn::BitCast(DH(), rounded(values.part[1]));
    hn::StoreU(hn::OddEven(odd, even), DH(), static_cast<uint16_t*>(to));
  }

 private:
  /// The result is the upper half; the lower is noise. Adds half of its unit, or one less where that must be even already.
  static HWY_INLINE VI rounded(V value) {
    const DI di;
    const VI bits = hn::BitCast(di, value);
    const VI is_even = hn::VecFromMask(di, hn::Eq(hn::And(bits, hn::Set(di, 0x10000)), hn::Zero(di)));
    const VI sum = hn::Add(bits, hn::Add(is_even, hn::Set(di, 0x8000)));
    const auto is_nan = hn::RebindMask(di, hn::IsNaN(value));
    return hn::IfThenElse(is_nan, hn::Set(di, static_cast<int32_t>(BFloat16::kNan << 16)), sum);
  }
};

#if HWY_TARGET <= HWY_AVX2
/// float16 where the CPU converts it (F16C): two half vectors.
template <size_t kBlockBytes = HWY_MAX_BYTES>
struct Float16Lanes {
  using Element = Float16;
  using Compute = float;
  using D = hn::CappedTag<float, kBlockBytes / 4>;
  using V = hn::Vec<D>;
  using DH = hn::Rebind<hwy::float16_t, D>;
  using Values = Block<V, 2>;
  using Half = Float16Lanes<kBlockBytes / 2>;
  static constexpr size_t kBytes = kBlockBytes;
  static constexpr size_t kLeastBytes = 4;

  static HWY_INLINE Values load(const void* from) {
    const auto* halves = static_cast<const hwy::float16_t*>(from);
    return {{hn::PromoteTo(D(), hn::LoadU(DH(), halves)), hn::PromoteTo(D(), hn::LoadU(DH(), halves + kPartElements))}};
  }
  static HWY_INLINE void store(void* to, const Values& values) {
    auto* halves = static_cast<hwy::float16_t*>(to);
    hn::StoreU(hn::DemoteTo(DH(), canonical(values.part[0])), DH(), halves);
    hn::StoreU(hn::DemoteTo(DH(), canonical(values.part[1])), DH(), halves + kPartElements);
  }

 private:
  static constexpr size_t kPartElements = kBytes / 4;
  static HWY_INLINE V canonical(V v) { return hn::IfThenElse(hn::IsNaN(v), hn::Set(D(), __builtin_nanf("")), v); }
};
#else
template <size_t kBlockBytes = HWY_MAX_BYTES>
using Float16Lanes = PackedLanes<Float16, kBlockBytes>;
#endif

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
