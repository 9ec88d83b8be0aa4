// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, second part: the transform of 8-bit sums in integers, for decoding. Included only by simd_thc.h,
// inside objects compiled for one instruction set. Results equal thc_arithmetic.h bit for bit. Nothing here can fail.
//
// Levels of 8-bit sums are integers of at most 255 in magnitude. So every stage of their transform is exact whatever its order and
// whatever its type, eight of them fit 16 bits, and the rest 32. The order is that of the bytes in a unit (thc_layout.h): bit 4 of an
// element's number is that of a byte, bits 0 to 3 say which 32-bit word of the unit, bit 5 which half of the word, bits 6 and up which
// unit.
#pragma once

#include <hwy/cache_control.h>

#include "kernels/simd_thc_rotate.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

/// Bytes, at most kBytes of them.
template <uint32_t kBytes = HWY_MAX_BYTES>
using ByteTag = hn::CappedTag<uint8_t, kBytes>;
using ByteVector = hn::Vec<ByteTag<>>;
using ShortTag = hn::ScalableTag<int16_t>;
using ShortVector = hn::Vec<ShortTag>;

inline constexpr uint32_t kUnit = codec::kUnitElements;
inline constexpr uint32_t kUnits = 8;                  ///< of one 16-bit transform
inline constexpr uint32_t kSumBlock = kUnit * kUnits;  ///< its elements

/// Sums of the products of neighbours, unsigned bytes of `a` times signed ones of `b`, where none needs more than 16 bits.
HWY_INLINE ShortVector multiply_bytes_in_pairs(ByteVector a, ByteVector b) {
#if HWY_TARGET <= HWY_AVX3
  return ShortVector{_mm512_maddubs_epi16(a.raw, b.raw)};
#elif HWY_TARGET <= HWY_AVX2
  return ShortVector{_mm256_maddubs_epi16(a.raw, b.raw)};
#elif HWY_TARGET <= HWY_SSE4
  return ShortVector{_mm_maddubs_epi16(a.raw, b.raw)};
#else
  const ShortTag d;
  const ShortVector left = hn::BitCast(d, a), right = hn::BitCast(d, b);
  const ShortVector even = hn::Mul(hn::And(left, hn::Set(d, 0xff)), hn::ShiftRight<8>(hn::ShiftLeft<8>(right)));
  return hn::Add(even, hn::Mul(hn::And(hn::ShiftRight<8>(left), hn::Set(d, 0xff)), hn::ShiftRight<8>(right)));
#endif
}

/// v, negated where `sign` is -1 and not 1, as 16 bits are: the least number stays.
HWY_INLINE ShortVector with_sign(ShortVector v, ShortVector sign) {
#if HWY_TARGET <= HWY_AVX3
  return hn::IfThenElse(hn::Lt(sign, hn::Zero(ShortTag())), hn::Neg(v), v);
#elif HWY_TARGET <= HWY_AVX2
  return ShortVector{_mm256_sign_epi16(v.raw, sign.raw)};
#elif HWY_TARGET <= HWY_SSE4
  return ShortVector{_mm_sign_epi16(v.raw, sign.raw)};
#else
  return hn::Mul(v, sign);
#endif
}

/// Pairs of elements in 32-bit words, among words at distance kHalf.
template <uint32_t kHalf>
HWY_INLINE ShortVector butterfly_words(ShortVector v) {
  const ShortTag d;
  const WordTag d32;
  const WordVector words = hn::BitCast(d32, v);
  WordVector swapped = words;
  if constexpr (kHalf == 1) swapped = hn::Reverse2(d32, words);
  if constexpr (kHalf == 2) swapped = hn::Shuffle1032(words);
  if constexpr (kHalf == 4) swapped = swap_blocks(words);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kHalf == 8) swapped = hn::ConcatLowerUpper(d32, words, words);
#endif
  const ShortVector other = hn::BitCast(d, swapped);
  const WordVector upper = hn::And(hn::Iota(d32, 0), hn::Set(d32, kHalf));
#if HWY_TARGET <= HWY_AVX3
  const auto is_upper = hn::Ne(upper, hn::Zero(d32));
  return hn::BitCast(d, hn::IfThenElse(is_upper, hn::BitCast(d32, hn::Sub(other, v)), hn::BitCast(d32, hn::Add(v, other))));
#else
  const ShortVector sign = hn::BitCast(d, hn::IfThenElse(hn::Eq(upper, hn::Zero(d32)), hn::Set(d32, 0x00010001), hn::Set(d32, 0xffffffff)));
  return hn::Add(other, with_sign(v, sign));
#endif
}

/// The words of kCount vectors among each other.
template <uint32_t kCount>
HWY_INLINE void transform_words(ShortVector* v) {
  ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_words<1>(v[i]);
  ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_words<2>(v[i]);
  if constexpr (kLanes > 4) {
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_words<4>(v[i]);
  }
  if constexpr (kLanes > 8) {
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_words<8>(v[i]);
  }
}

/// All stages but that of bit 5 for kSumBlock sums: those of elements with bit 4 clear, then of those with it set. A 32-bit word has the
/// elements that differ in bit 5, and words are in the order of the others' numbers, bit 4 left out of them.
template <uint32_t kParity>
HWY_INLINE void transform_block(int16_t* to, const uint8_t* src, ShortVector middle) {
  constexpr uint32_t kVectors = kUnits * kUnit / HWY_MAX_BYTES, kTogether = 8;
  const ShortTag d;
  const ByteTag<> d8;
  const ByteVector signs =
      hn::BitCast(d8, hn::Set(hn::Repartition<uint16_t, ByteTag<>>(), kParity == 0 ? uint16_t{0x0101} : uint16_t{0xff01}));
  const auto keep = [=](ShortVector v, size_t index, size_t offset) HWY_ATTR { hn::Store(v, d, to + index + offset); };
  for (uint32_t first = 0; first < kVectors; first += kTogether) {
    ShortVector v[kTogether];
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      const ShortVector pairs = multiply_bytes_in_pairs(hn::LoadU(d8, src + (first + i) * HWY_MAX_BYTES), signs);
      v[i] = kParity == 0 ? hn::Sub(pairs, middle) : pairs;
    }
    transform_words<kTogether>(v);
    transform_vectors<kTogether>(v);
    const bool joins = kVectors == 2 * kTogether && first > 0;  // the last stage in passing: registers do not hold all vectors
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kTogether; ++i) {
      if (joins) {
        ShortVector before = hn::Load(d, to + i * HWY_MAX_BYTES / 2);
        Plain::join(before, v[i]);
        hn::Store(before, d, to + i * HWY_MAX_BYTES / 2);
      }
      hn::Store(v[i], d, to + (first + i) * HWY_MAX_BYTES / 2);
    }
  }
  if constexpr (kVectors > 2 * kTogether) stages<kVectors / kTogether>(to, kSumBlock / 2, kTogether * HWY_MAX_BYTES / 2, keep);
}

/// A vector's worth of the stages of bit 5 (kHalf 0: sums, 1: differences) and of the blocks' numbers, of which there are kRows.
template <uint32_t kRows, uint32_t kHalf, class Out>
HWY_INLINE void transform_rows(const int16_t* from, size_t index, Out out) {
  const FloatTag df;
  const hn::RebindToSigned<WordTag> di;
  using IntVector = hn::Vec<decltype(di)>;
  // Levels are twice the sums less the middle.
  const ShortVector signs = hn::BitCast(ShortTag(), hn::Set(WordTag(), kHalf == 0 ? 0x00020002U : 0xfffe0002U));
  IntVector v[kRows];
  ISTHMUS_UNROLL for (uint32_t row = 0; row < kRows; ++row) {
    IntVector none = hn::Zero(di);
    v[row] = hn::ReorderWidenMulAccumulate(di, hn::Load(ShortTag(), from + row * kSumBlock), signs, hn::Zero(di), none);
  }
  transform_vectors<kRows>(v);
  ISTHMUS_UNROLL for (uint32_t row = 0; row < kRows; ++row) {
    asm volatile("" : "+x"(v[row].raw) : : "memory");  // stores past the caches go best one by one, not all in the end
    out(hn::ConvertTo(df, v[row]), index, row * kSumBlock);
  }
}

/// The transform of 2 S - middle for kRows blocks of sums. out(vector, index, offset) is given each vector once, cache line by cache line.
template <uint32_t kRows, class Out>
HWY_INLINE void transform_sums(const uint8_t* src, uint32_t middle, Out out) {
  HWY_ALIGN int16_t words[kRows * kSumBlock];
  const ShortVector middles = hn::Set(ShortTag(), static_cast<int16_t>(middle));
  for (uint32_t at = 0; at < kRows * kSumBlock; at += kSumBlock) {
    transform_block<0>(words + at, src + at, middles);
    transform_block<1>(words + at + kSumBlock / 2, src + at, middles);
  }
  const uint8_t* next = src + kRows * kSumBlock;  // what will be read then, most often
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    for (uint32_t parity = 0; parity < 2; ++parity) {
      ISTHMUS_UNROLL for (uint32_t line = 0; line < kRows * kSumBlock / (2 * kUnits); line += 64) hwy::Prefetch(next + line);
      next += kRows * kSumBlock / (2 * kUnits);
      const int16_t* from = words + kSumBlock / 2 * parity + kUnit / 2 * unit;
      const uint32_t index = kUnit * unit + 16 * parity;
      for (uint32_t i = 0; i < 16; i += kLanes) transform_rows<kRows, 0>(from + 2 * i, index + i, out);
      for (uint32_t i = 0; i < 16; i += kLanes) transform_rows<kRows, 1>(from + 2 * i, index + 32 + i, out);
    }
  }
}

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
