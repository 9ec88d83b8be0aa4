// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, third part: the encoders' rotation, in fixed point, and from its
// coordinates to table indices. Included only by simd_thc.h, inside
// objects compiled for one instruction set. Bytes are in storage order (thc_layout.h), so nothing crosses lanes. Results equal
// thc_arithmetic.h bit for bit. Nothing here can fail.
//
// Old CPUs have few units for some operations: shuffles of bytes stand for shifts and masks for blends, and where a step takes long,
// it is taken for kTogether vectors, one after the other, so that none waits.
#pragma once

#include <cstring>

#include "kernels/simd_thc_sums.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

using UnsignedShortTag = hn::Repartition<uint16_t, WordTag>;
using UnsignedShortVector = hn::Vec<UnsignedShortTag>;

inline constexpr uint32_t kUnitVectors = kUnit / HWY_MAX_BYTES;             ///< of bytes
inline constexpr uint32_t kTogether = kUnitVectors < 2 ? kUnitVectors : 2;  ///< what registers hold

template <int kBits, class V>
HWY_INLINE V shift_bytes_right(V v) {  // the caller masks what comes from the neighbour
  const hn::DFromV<V> d;
  if constexpr (kBits == 0) return v;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  return hn::BitCast(d, hn::ShiftRight<kBits>(hn::BitCast(d16, v)));
}

template <class V>
HWY_INLINE V shift_bytes(V v, int left) {  // no bit leaves its byte to the left; the caller masks after a shift to the right
  const hn::DFromV<V> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto wide = hn::BitCast(d16, v);
  return hn::BitCast(d, left >= 0 ? hn::ShiftLeftSame(wide, left) : hn::ShiftRightSame(wide, -left));
}

/// Bytes of fixed point's order (even and odd bytes those of two vectors of it) and of storage order (thc_layout.h), in every 128 bits.
class ByteMoves {
 public:
  /// `upper`: even() and odd() make upper bytes, otherwise lower ones.
  HWY_INLINE explicit ByteMoves(bool upper) {
    HWY_ALIGN uint8_t order[5][16];
    for (uint8_t i = 0; i < 16; ++i) {
      const bool odd = i % 2 != 0, wanted = odd == upper;
      const auto place = static_cast<uint8_t>(4 * (i / 2 % 4) + i / 8 * 2);  // of the even byte of i's 16 bits
      order[0][i] = odd ? static_cast<uint8_t>(i - 1) : 0x80;
      order[1][i] = odd ? 0x80 : static_cast<uint8_t>(i + 1);
      order[2][i] = wanted ? place : 0x80;
      order[3][i] = wanted ? static_cast<uint8_t>(place + 1) : 0x80;
      order[4][i] = static_cast<uint8_t>(2 * (i / 4 + i % 4 / 2 * 4) + i % 2);
    }
    up_ = hn::LoadDup128(ByteTag<>(), order[0]);
    down_ = hn::LoadDup128(ByteTag<>(), order[1]);
    even_ = hn::LoadDup128(ByteTag<>(), order[2]);
    odd_ = hn::LoadDup128(ByteTag<>(), order[3]);
    stored_ = hn::LoadDup128(ByteTag<>(), order[4]);
  }
  /// 16-bit v << 8 and v >> 8
  template <class V>
  [[nodiscard]] HWY_INLINE V up(V v) const {
    return hn::BitCast(hn::DFromV<V>(), hn::TableLookupBytes(hn::BitCast(ByteTag<>(), v), up_));
  }
  template <class V>
  [[nodiscard]] HWY_INLINE V down(V v) const {
    return hn::BitCast(hn::DFromV<V>(), hn::TableLookupBytes(hn::BitCast(ByteTag<>(), v), down_));
  }
  /// Of bytes in storage order: what belongs to even and odd bytes, as the upper or lower bytes of 16 bits.
  [[nodiscard]] HWY_INLINE UnsignedShortVector even(ByteVector v) const {
    return hn::BitCast(UnsignedShortTag(), hn::TableLookupBytes(v, even_));
  }
  [[nodiscard]] HWY_INLINE UnsignedShortVector odd(ByteVector v) const {
    return hn::BitCast(UnsignedShortTag(), hn::TableLookupBytes(v, odd_));
  }
  /// From fixed point's order to storage order.
  [[nodiscard]] HWY_INLINE ByteVector stored(ByteVector v) const { return hn::TableLookupBytes(v, stored_); }

 private:
  ByteVector up_, down_, even_, odd_, stored_;
};

/// The table as every block of 16 bytes.
HWY_INLINE ByteVector table_of(const codec::Thc& thc) {
  HWY_ALIGN uint8_t bytes[16];
  std::memcpy(bytes, &thc.table, 16);
  return hn::LoadDup128(ByteTag<>(), bytes);
}

// --- rotation in fixed point ----------------------------------------------------------------------------------------------------
//
// The stages of thc_arithmetic.h's hadamard_to_fixed_point. A unit's 16-bit numbers lie as quantising has them: in vector 2 j quarters 0
// and 2 of the unit, in vector 2 j + 1 quarters 1 and 3, of each quarter the j-th vector's worth of floats; and 128 bits have four
// numbers of the one quarter, then four of the other.

inline constexpr uint32_t kShorts = HWY_MAX_BYTES / sizeof(int16_t);

/// To nearest even, saturated; in every 128 bits first those of `first`. None is beyond 2^31.
HWY_INLINE ShortVector shorts_of(FloatVector first, FloatVector second) {
#if HWY_TARGET <= HWY_AVX3
  return ShortVector{_mm512_packs_epi32(_mm512_cvtps_epi32(first.raw), _mm512_cvtps_epi32(second.raw))};
#elif HWY_TARGET <= HWY_AVX2
  return ShortVector{_mm256_packs_epi32(_mm256_cvtps_epi32(first.raw), _mm256_cvtps_epi32(second.raw))};
#elif HWY_TARGET <= HWY_SSE4
  return ShortVector{_mm_packs_epi32(_mm_cvtps_epi32(first.raw), _mm_cvtps_epi32(second.raw))};
#else
  return hn::ReorderDemote2To(ShortTag(), hn::NearestInt(first), hn::NearestInt(second));
#endif
}

/// Bytes of 128 bits that change places with their neighbours, two and two.
HWY_INLINE ByteVector short_swaps() {
  HWY_ALIGN uint8_t order[16];
  for (uint8_t i = 0; i < 16; ++i) order[i] = i ^ 2U;
  return hn::LoadDup128(ByteTag<>(), order);
}

/// Numbers kHalf apart (1, 2 or 8) added and subtracted, saturated. The one that is subtracted is negated as 16 bits are: the least stays.
template <uint32_t kHalf>
HWY_INLINE ShortVector butterfly_shorts(ShortVector v) {
  const ShortTag d;
  const WordTag d32;
  const ByteTag<> d8;
  ShortVector other = v;
  if constexpr (kHalf == 1) other = hn::BitCast(d, hn::TableLookupBytes(hn::BitCast(d8, v), short_swaps()));
  if constexpr (kHalf == 2) other = hn::BitCast(d, hn::Reverse2(d32, hn::BitCast(d32, v)));
  if constexpr (kHalf == 8) other = hn::BitCast(d, swap_blocks(hn::BitCast(d32, v)));
  const auto is_upper = hn::Ne(hn::And(hn::Iota(d, 0), hn::Set(d, kHalf)), hn::Zero(d));
  return hn::SaturatedAdd(other, with_sign(v, hn::IfThenElse(is_upper, hn::Set(d, -1), hn::Set(d, 1))));
}

/// A unit's stages at distances 1, 2 and 4 where each of kVectors has a quarter's worth of another one as its neighbour.
template <uint32_t kVectors>
HWY_INLINE void transform_quarters(ShortVector* v) {
  ISTHMUS_UNROLL for (uint32_t i = 0; i < kVectors; ++i) v[i] = butterfly_shorts<1>(v[i]);
  ISTHMUS_UNROLL for (uint32_t i = 0; i < kVectors; ++i) v[i] = butterfly_shorts<2>(v[i]);
  if constexpr (kLanes > 4) {
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kVectors; ++i) v[i] = butterfly_shorts<8>(v[i]);
  } else {
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kVectors; i += 4) {
      ISTHMUS_UNROLL for (uint32_t half = 0; half < 2; ++half) {
        const ShortVector a = v[i + half], b = v[i + 2 + half];
        v[i + half] = hn::SaturatedAdd(a, b);
        v[i + 2 + half] = hn::SaturatedAdd(a, hn::Neg(b));
      }
    }
  }
}

/// All stages within units. in(index, offset): the element vector at their sum.
template <class In>
HWY_INLINE void units_to_shorts(int16_t* to, uint32_t elements, float factor, In in) {
  constexpr uint32_t kVectors = kUnit / kLanes, kQuarter = kVectors / 4;
  constexpr uint32_t kFrom = kLanes < 8 ? 8 / kLanes : 1;  // vectors whose elements are 8 apart
  const FloatVector factors = hn::Set(FloatTag(), factor);
  for (size_t base = 0; base < elements; base += kUnit) {
    FloatVector v[kVectors];
    ISTHMUS_UNROLL for (uint32_t r = 0; r < kVectors; ++r) v[r] = in(base, r * kLanes);
#if HWY_TARGET <= HWY_AVX3
    if constexpr (kLanes == 16) {
      ISTHMUS_UNROLL for (uint32_t r = 0; r < kVectors; ++r) v[r] = butterfly_lanes<8>(v[r]);
    }
#endif
    transform_vectors<kVectors, kFrom>(v);
    ISTHMUS_UNROLL for (uint32_t r = 0; r < kVectors; ++r) v[r] = hn::Mul(v[r], factors);
    ShortVector shorts[2 * kQuarter];
    ISTHMUS_UNROLL for (uint32_t j = 0; j < kQuarter; ++j) {
      shorts[2 * j] = shorts_of(v[j], v[2 * kQuarter + j]);
      shorts[2 * j + 1] = shorts_of(v[kQuarter + j], v[3 * kQuarter + j]);
    }
    transform_quarters<2 * kQuarter>(shorts);
    ISTHMUS_UNROLL for (uint32_t i = 0; i < 2 * kQuarter; ++i) hn::Store(shorts[i], ShortTag(), to + base + i * kShorts);
  }
}

/// The stages from unit to unit.
HWY_INLINE void join_units(int16_t* data, uint32_t elements) {
  const auto keep = [=](ShortVector v, size_t index, size_t offset) HWY_ATTR { hn::Store(v, ShortTag(), data + index + offset); };
  uint32_t half = kUnit;
  for (; elements / half >= 8; half *= 8) stages<8, Saturating>(data, elements, half, keep);
  if (elements / half == 4) stages<4, Saturating>(data, elements, half, keep);
  if (elements / half == 2) stages<2, Saturating>(data, elements, half, keep);
}

/// Fixed point that lacks bits, to as many as coordinates have. Only wide tables need it.
HWY_INLINE void add_bits(int16_t* data, uint32_t elements, uint32_t bits, uint32_t middle) {
  const ShortTag d;
  const ShortVector most = hn::Set(d, static_cast<int16_t>(middle >> bits)), least = hn::Neg(most);
  for (size_t i = 0; i < elements; i += kShorts) {
    const ShortVector clamped = hn::Min(hn::Max(hn::Load(d, data + i), least), most);
    hn::Store(hn::ShiftLeftSame(clamped, static_cast<int>(bits)), d, data + i);
  }
}

/// How far fixed point reaches: is `far` where coordinates, or half of their last bit, may be beyond 16 bits with a sign; `whole`: not so,
/// and it has no bits beyond theirs.
enum class Reach { far, near, whole };

HWY_INLINE Reach reach_of(const ThcQuantiser& q) {
  const bool is_far = q.shift < 0 || (2 * q.middle << q.shift) + (1U << q.shift >> 1) > INT16_MAX;
  return is_far ? Reach::far : q.shift == 0 ? Reach::whole : Reach::near;
}

/// Fixed point to coordinates, which quantisers take, in the order of fixed point. If not far, what is beyond the table's ends may stay
/// there.
template <Reach kReach>
class Coordinates {
 public:
  HWY_INLINE explicit Coordinates(const ThcQuantiser& q) : shift_(q.shift > 0 ? q.shift : 0) {
    const uint32_t middle = q.middle << shift_;
    most_ = hn::Set(ShortTag(), static_cast<int16_t>(middle));
    least_ = hn::Neg(most_);
    middle_ = hn::Set(ShortTag(), static_cast<int16_t>(middle + (1U << shift_ >> 1)));
  }
  [[nodiscard]] HWY_INLINE UnsignedShortVector operator()(const int16_t* from) const {
    const UnsignedShortTag d16;
    const ShortVector v = hn::Load(ShortTag(), from);
    if constexpr (kReach == Reach::whole) return hn::BitCast(d16, hn::SaturatedAdd(v, middle_));
    if constexpr (kReach == Reach::near) return hn::BitCast(d16, hn::ShiftRightSame(hn::SaturatedAdd(v, middle_), shift_));
    const ShortVector clamped = hn::Min(hn::Max(v, least_), most_);
    return hn::ShiftRightSame(hn::BitCast(d16, hn::Add(clamped, middle_)), shift_);
  }

 private:
  int shift_;
  ShortVector most_, least_, middle_;
};

// --- quantising -----------------------------------------------------------------------------------------------------------------

/// Whether vectors can quantise with a table: the products of a gap and dither fit 16 bits with a sign, and its search is short.
HWY_INLINE bool has_vectors(const codec::Thc& thc) {
  if (thc.search.steps > codec::ThcSearch::kMostSteps) return false;
  const auto* table = reinterpret_cast<const uint8_t*>(&thc.table);
  for (uint32_t k = 1; k < thc.levels(); ++k) {
    if (table[k] - table[k - 1] > 127) return false;
  }
  return true;
}

/// A unit's bytes, in fixed point's order.
using UnitBytes = ByteVector[kUnitVectors];

/// Indices into tables. kSteps: those of the search, at least; 0 where it is direct. If coordinates are not far, they are below 128, and
/// signed.
template <uint32_t kSteps, Reach kReach>
class TableQuantiser {
 public:
  HWY_INLINE TableQuantiser(const codec::Thc& thc, const ThcQuantiser& q)
      : coordinates_(q),
        moves_(true),
        low_(hn::LoadDup128(ByteTag<>(), thc.search.low.data())),
        high_(hn::LoadDup128(ByteTag<>(), thc.search.high.data())),
        cell_(hn::Set(ByteTag<>(), static_cast<uint8_t>(0xffU >> thc.search.shift))),
        most_(hn::Set(SignedTag(), static_cast<int8_t>(kNear ? thc.config.granularity : 0))),
        stratum_(hn::Set(UnsignedShortTag(), static_cast<uint16_t>(q.stratum << 8 | 0x80))),
        shift_(thc.search.shift) {
    const ByteTag<> d8;
    HWY_ALIGN uint8_t bytes[32];
    std::memcpy(bytes, &thc.table, 16);
    std::memcpy(bytes + 16, &thc.gap, 16);
    if (kNear) bytes[thc.levels() - 1] = 128;  // more than any coordinate, so that nothing goes up from there
    base_ = hn::LoadDup128(d8, bytes);
    gap_ = hn::LoadDup128(d8, bytes + 16);
    ISTHMUS_UNROLL for (uint32_t step = 0; step < kSteps; ++step) {
      const ByteVector last = hn::LoadDup128(d8, thc.search.last[step].data());
      last_[step] = kNear ? hn::Min(hn::Xor(last, hn::Set(d8, 0x80)), hn::Set(d8, 127)) : last;
    }
  }

  /// One unit's indices. `random`: their dither, in storage order.
  HWY_INLINE void operator()(UnitBytes& k, const int16_t* from, const uint32_t* random) const {
    ISTHMUS_UNROLL for (uint32_t first = 0; first < kUnitVectors; first += kTogether) {
      some(k + first, from + 2 * first * kShorts, random + first * kLanes);
    }
  }
  [[nodiscard]] HWY_INLINE const ByteMoves& moves() const { return moves_; }

 private:
  using SignedTag = hn::RebindToSigned<ByteTag<>>;
  using SignedVector = hn::Vec<SignedTag>;

  HWY_INLINE void some(ByteVector* k, const int16_t* from, const uint32_t* random) const {
    const ByteTag<> d8;
    const UnsignedShortTag d16;
    const UnsignedShortVector lower = hn::Set(d16, uint16_t{0xff});
    UnsignedShortVector even[kTogether], odd[kTogether], base[kTogether], gap[kTogether];
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      even[i] = coordinates_(from + 2 * i * kShorts);
      odd[i] = coordinates_(from + (2 * i + 1) * kShorts);
    }
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      k[i] = below(hn::BitCast(d8, hn::Or(moves_.down(even[i]), hn::AndNot(lower, odd[i]))));
      base[i] = hn::BitCast(d16, hn::TableLookupBytes(base_, k[i]));
      gap[i] = hn::BitCast(d16, hn::TableLookupBytes(gap_, k[i]));
    }
    // Of upper bytes, whose lower ones are 0: up where (dither + 1/2) gap, rounded down, is less than u - 256 base.
    const auto is_up = [&](UnsignedShortVector u, UnsignedShortVector from_base, UnsignedShortVector step,
                           UnsignedShortVector byte) HWY_ATTR {
      const ShortTag di;
      const UnsignedShortVector rise = hn::MulHigh(hn::Add(byte, stratum_), step);
      return hn::BitCast(d16, hn::VecFromMask(di, hn::Gt(hn::BitCast(di, hn::Sub(u, from_base)), hn::BitCast(di, rise))));
    };
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      const auto dither = hn::BitCast(d8, hn::Load(WordTag(), random + i * kLanes));
      const auto even_up = is_up(even[i], moves_.up(base[i]), moves_.up(gap[i]), moves_.even(dither));
      const auto odd_up = is_up(odd[i], hn::AndNot(lower, base[i]), hn::AndNot(lower, gap[i]), moves_.odd(dither));
      // Nothing is carried from the even index to the odd one.
      k[i] = hn::BitCast(d8, hn::Sub(hn::Sub(hn::BitCast(d16, k[i]), even_up), hn::AndNot(lower, odd_up)));
    }
  }
  /// The greatest k with table[k] <= whole.
  HWY_INLINE ByteVector below(ByteVector whole) const {
    const ByteTag<> d8;
    const SignedTag di;
    if constexpr (kNear) whole = hn::BitCast(d8, hn::Min(hn::Max(hn::BitCast(di, whole), hn::Zero(di)), most_));
    if constexpr (kSteps == 0) {  // lookups only heed the lower four bits, and give 0 where bit 7 is set
      return hn::Add(hn::TableLookupBytes(low_, whole), hn::TableLookupBytes(high_, hn::Sub(whole, hn::Set(d8, 16))));
    } else {
      const UnsignedShortTag d16;
      const ByteVector cell = hn::And(hn::BitCast(d8, hn::ShiftRightSame(hn::BitCast(d16, whole), shift_)), cell_);
      const SignedVector at = hn::BitCast(di, kNear ? whole : hn::Xor(whole, hn::Set(d8, 0x80)));
      ByteVector k = hn::TableLookupBytes(low_, cell);
      ISTHMUS_UNROLL for (uint32_t step = 0; step < kSteps; ++step) {
        const SignedVector last = hn::BitCast(di, hn::TableLookupBytes(last_[step], cell));
        k = hn::Sub(k, hn::BitCast(d8, hn::VecFromMask(di, hn::Gt(at, last))));
      }
      return k;
    }
  }

  static constexpr bool kNear = kReach != Reach::far;

  Coordinates<kReach> coordinates_;
  ByteMoves moves_;
  ByteVector base_, gap_, low_, high_, cell_, last_[kSteps == 0 ? 1 : kSteps];
  SignedVector most_;
  UnsignedShortVector stratum_;
  int shift_;
};

/// The same where the table is the identity: a coordinate's integer part, and one more where dither is less than its fraction.
class IdentityQuantiser {
 public:
  HWY_INLINE explicit IdentityQuantiser(const ThcQuantiser& q)
      : coordinates_(q), moves_(false), last_(hn::Set(ByteTag<>(), static_cast<uint8_t>(255 - q.stratum))) {}

  HWY_INLINE void operator()(UnitBytes& k, const int16_t* from, const uint32_t* random) const {
    const UnsignedShortTag d16;
    const UnsignedShortVector lower = hn::Set(d16, uint16_t{0xff});
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kUnitVectors; ++i) {
      const ByteVector dither = hn::BitCast(ByteTag<>(), hn::Load(WordTag(), random + i * kLanes));
      const ByteVector complement = hn::Sub(last_, dither);  // 255 - dither: the fraction's sum with it carries
      const UnsignedShortVector even_sum = hn::Add(coordinates_(from + 2 * i * kShorts), moves_.even(complement));
      const UnsignedShortVector odd_sum = hn::Add(coordinates_(from + (2 * i + 1) * kShorts), moves_.odd(complement));
      k[i] = hn::BitCast(ByteTag<>(), hn::Or(moves_.down(even_sum), hn::AndNot(lower, odd_sum)));
    }
  }
  [[nodiscard]] HWY_INLINE const ByteMoves& moves() const { return moves_; }

 private:
  Coordinates<Reach::far> coordinates_;
  ByteMoves moves_;
  ByteVector last_;
};

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
