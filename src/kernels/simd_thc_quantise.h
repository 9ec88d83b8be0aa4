// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, third part: from rotated coordinates to table indices. Included only by simd_thc.h, inside
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

/// Moves bytes within 16-bit numbers.
class ByteMoves {
 public:
  ByteMoves() {
    HWY_ALIGN uint8_t up[16], down[16];
    for (uint8_t i = 0; i < 16; ++i) {
      up[i] = i % 2 == 0 ? 0x80 : static_cast<uint8_t>(i - 1);
      down[i] = i % 2 == 0 ? static_cast<uint8_t>(i + 1) : 0x80;
    }
    up_ = hn::LoadDup128(ByteTag<>(), up);
    down_ = hn::LoadDup128(ByteTag<>(), down);
  }
  /// v << 8 and v >> 8
  template <class V>
  [[nodiscard]] HWY_INLINE V up(V v) const {
    return hn::BitCast(hn::DFromV<V>(), hn::TableLookupBytes(hn::BitCast(ByteTag<>(), v), up_));
  }
  template <class V>
  [[nodiscard]] HWY_INLINE V down(V v) const {
    return hn::BitCast(hn::DFromV<V>(), hn::TableLookupBytes(hn::BitCast(ByteTag<>(), v), down_));
  }

 private:
  ByteVector up_, down_;
};

/// The tables as every block of 16 bytes.
struct Tables {
  ByteVector table, gap;

  HWY_INLINE explicit Tables(const codec::Thc& thc) {
    HWY_ALIGN uint8_t bytes[32];
    std::memcpy(bytes, &thc.table, 16);
    std::memcpy(bytes + 16, &thc.gap, 16);
    table = hn::LoadDup128(ByteTag<>(), bytes);
    gap = hn::LoadDup128(ByteTag<>(), bytes + 16);
  }
};

/// Rotated coordinates to fixed point in the lower 16 bits; the upper ones are noise.
struct FixedPoint {
  FloatVector factor, middle, top;

  HWY_INLINE explicit FixedPoint(const ThcQuantiser& q)
      : factor(hn::Set(FloatTag(), q.factor)), middle(hn::Set(FloatTag(), q.middle)), top(hn::Set(FloatTag(), q.top)) {}

  HWY_INLINE FloatVector operator()(FloatVector y) const {
    const FloatTag df;
    const FloatVector shifted = hn::Add(hn::Mul(y, factor), middle);
    const FloatVector clamped = hn::Min(hn::Max(shifted, hn::Zero(df)), top);
    return hn::Add(clamped, hn::Set(df, 8388608.0F));
  }
};

/// How to find the greatest k with table[k] <= whole, for a table of at most 16 values.
struct Search {
  static constexpr uint32_t kMostSteps = 8;
  bool direct;         ///< by a lookup of all numbers: `low`, and from 16 on what `high` adds to `low` of 16 less
  int shift = 0;       ///< else in cells of 1 << shift numbers: `low` the k of a cell's first one
  uint32_t steps = 0;  ///< the most that k grows in a cell
  HWY_ALIGN uint8_t low[16];
  HWY_ALIGN uint8_t high[16];
  HWY_ALIGN uint8_t last[kMostSteps][16];  ///< for the n-th step in a cell: the last number before it, less 128

  HWY_INLINE explicit Search(const codec::Thc& thc) : direct(thc.config.granularity < 32) {
    const auto* below = reinterpret_cast<const uint8_t*>(&thc.below);
    std::memcpy(low, below, 16);
    for (uint32_t i = 0; i < 16; ++i) high[i] = static_cast<uint8_t>(below[16 + i] - below[i]);
    if (direct) return;
    while (thc.config.granularity >> shift >= 16) ++shift;
    std::memset(last, 127, sizeof last);
    for (uint32_t cell = 0; cell < 16; ++cell) {
      low[cell] = below[cell << shift];
      uint32_t step = 0;
      for (uint32_t number = (cell << shift) + 1; number < (cell + 1) << shift; ++number) {
        if (below[number] == below[number - 1]) continue;
        if (step < kMostSteps) last[step][cell] = static_cast<uint8_t>(number - 1 - 128);
        ++step;
      }
      steps = step > steps ? step : steps;
    }
  }
};

/// Whether vectors can quantise with a table: the products of a gap and dither fit 16 bits with a sign, and its search is short.
HWY_INLINE bool has_vectors(const codec::Thc& thc, const Search& search) {
  if (search.steps > Search::kMostSteps) return false;
  const auto* table = reinterpret_cast<const uint8_t*>(&thc.table);
  for (uint32_t k = 1; k < thc.levels(); ++k) {
    if (table[k] - table[k - 1] > 127) return false;
  }
  return true;
}

/// Indices into tables. kSteps: those of the search, at least; 0 where it is direct.
template <uint32_t kSteps>
class TableQuantiser {
 public:
  HWY_INLINE TableQuantiser(const Tables& tables, const Search& search, uint8_t stratum)
      : tables_(tables),
        low_(hn::LoadDup128(ByteTag<>(), search.low)),
        high_(hn::LoadDup128(ByteTag<>(), search.high)),
        cell_(hn::Set(ByteTag<>(), static_cast<uint8_t>(0xffU >> search.shift))),
        bias_(hn::Set(ByteTag<>(), kSteps == 0 ? uint8_t{16} : uint8_t{0x80})),
        stratum_(hn::Set(UnsignedShortTag(), static_cast<uint16_t>(stratum << 8 | 0x80))),
        shift_(search.shift) {
    ISTHMUS_UNROLL for (uint32_t step = 0; step < kSteps; ++step) last_[step] = hn::LoadDup128(ByteTag<>(), search.last[step]);
  }

  /// k[i] = the bytes of coordinates in the 16-bit halves of even[i] and odd[i]; `random` on entry.
  HWY_INLINE void operator()(const UnsignedShortVector* even, const UnsignedShortVector* odd, ByteVector* k) const {
    const ByteTag<> d8;
    const UnsignedShortTag d16;
    const UnsignedShortVector lower = hn::Set(d16, uint16_t{0xff});
    UnsignedShortVector random[kTogether], base[kTogether], gap[kTogether];
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      random[i] = hn::BitCast(d16, k[i]);
      k[i] = below(hn::BitCast(d8, hn::Or(moves_.down(even[i]), hn::AndNot(lower, odd[i]))));
      base[i] = hn::BitCast(d16, hn::TableLookupBytes(tables_.table, k[i]));
      gap[i] = hn::BitCast(d16, hn::TableLookupBytes(tables_.gap, k[i]));
    }
    // Of upper bytes, whose lower ones are 0: up where (dither + 1/2) gap, rounded down, is less than u - 256 base.
    const auto is_up = [&](UnsignedShortVector u, UnsignedShortVector from, UnsignedShortVector step, UnsignedShortVector byte) HWY_ATTR {
      const ShortTag di;
      const UnsignedShortVector rise = hn::MulHigh(hn::Add(byte, stratum_), step);
      return hn::BitCast(d16, hn::VecFromMask(di, hn::Gt(hn::BitCast(di, hn::Sub(u, from)), hn::BitCast(di, rise))));
    };
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      const auto even_up = is_up(even[i], moves_.up(base[i]), moves_.up(gap[i]), moves_.up(random[i]));
      const auto odd_up = is_up(odd[i], hn::AndNot(lower, base[i]), hn::AndNot(lower, gap[i]), hn::AndNot(lower, random[i]));
      // Nothing is carried from the even index to the odd one.
      k[i] = hn::BitCast(d8, hn::Sub(hn::Sub(hn::BitCast(d16, k[i]), even_up), hn::AndNot(lower, odd_up)));
    }
  }

 private:
  /// The greatest k with table[k] <= whole.
  HWY_INLINE ByteVector below(ByteVector whole) const {
    if constexpr (kSteps == 0) {  // lookups only heed the lower four bits, and give 0 where bit 7 is set
      return hn::Add(hn::TableLookupBytes(low_, whole), hn::TableLookupBytes(high_, hn::Sub(whole, bias_)));
    } else {
      const hn::RebindToSigned<ByteTag<>> di;
      const ByteVector cell = hn::And(shift_bytes(whole, -shift_), cell_);
      const auto biased = hn::BitCast(di, hn::Xor(whole, bias_));
      ByteVector k = hn::TableLookupBytes(low_, cell);
      ISTHMUS_UNROLL for (uint32_t step = 0; step < kSteps; ++step) {
        const auto last = hn::BitCast(di, hn::TableLookupBytes(last_[step], cell));
        k = hn::Sub(k, hn::BitCast(ByteTag<>(), hn::VecFromMask(di, hn::Gt(biased, last))));
      }
      return k;
    }
  }

  const Tables& tables_;
  ByteMoves moves_;
  ByteVector low_, high_, cell_, bias_, last_[kSteps == 0 ? 1 : kSteps];
  UnsignedShortVector stratum_;
  int shift_;
};

/// The same where the table is the identity: a coordinate's integer part, and one more where dither is less than its fraction.
class IdentityQuantiser {
 public:
  HWY_INLINE explicit IdentityQuantiser(uint8_t stratum) : last_(hn::Set(ByteTag<>(), static_cast<uint8_t>(255 - stratum))) {}

  HWY_INLINE void operator()(const UnsignedShortVector* even, const UnsignedShortVector* odd, ByteVector* k) const {
    const UnsignedShortTag d16;
    const UnsignedShortVector lower = hn::Set(d16, uint16_t{0xff});
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      const auto complement = hn::BitCast(d16, hn::Sub(last_, k[i]));  // 255 - dither: the fraction's sum with it carries
      const UnsignedShortVector even_sum = hn::Add(even[i], hn::And(complement, lower));
      const UnsignedShortVector odd_sum = hn::Add(odd[i], moves_.down(complement));
      k[i] = hn::BitCast(ByteTag<>(), hn::Or(moves_.down(even_sum), hn::AndNot(lower, odd_sum)));
    }
  }

 private:
  ByteMoves moves_;
  ByteVector last_;
};

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
