// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, second part: quantising, planes of bits, sums, and the table. Included by simd_reduce.h,
// inside objects compiled for one instruction set. Bytes are in storage order (thc_layout.h) everywhere, so nothing crosses lanes.
// Results equal thc_arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include <cstring>

#include "kernels/simd_thc_rotate.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

inline constexpr uint32_t kUnit = codec::kUnitElements;

/// Bytes, at most kBytes of them.
template <uint32_t kBytes = HWY_MAX_BYTES>
using ByteTag = hn::CappedTag<uint8_t, kBytes>;
using ByteVector = hn::Vec<ByteTag<>>;

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

/// A unit's values: lower bytes and, for wider sums, upper ones.
struct Unit {
  HWY_ALIGN uint8_t low[kUnit];
  HWY_ALIGN uint8_t high[kUnit];
};

/// Fields of kBits bits of 8 kBits bytes, into bits from `shift` on of `values`.
template <int kBits>
HWY_INLINE void unpack_plane(uint8_t* HWY_RESTRICT values, const uint8_t* HWY_RESTRICT src, uint32_t shift) {
  const ByteTag<8 * kBits> d;
  const auto mask = hn::Set(d, static_cast<uint8_t>((1U << kBits) - 1));
  for (uint32_t j = 0; j < 8 * kBits; j += static_cast<uint32_t>(hn::Lanes(d))) {
    auto v = hn::LoadU(d, src + j);
    for (uint32_t field = 0; field < 8 / kBits; ++field) {
      uint8_t* to = values + 8 * kBits * field + j;
      const auto part = shift_bytes(hn::And(v, mask), static_cast<int>(shift));
      hn::StoreU(shift == 0 ? part : hn::Or(part, hn::LoadU(d, to)), d, to);
      v = shift_bytes_right<kBits % 8>(v);
    }
  }
}

template <int kBits>
HWY_INLINE void pack_plane(uint8_t* HWY_RESTRICT dst, const uint8_t* HWY_RESTRICT values, uint32_t shift) {
  const ByteTag<8 * kBits> d;
  const auto mask = hn::Set(d, static_cast<uint8_t>((1U << kBits) - 1));
  for (uint32_t j = 0; j < 8 * kBits; j += static_cast<uint32_t>(hn::Lanes(d))) {
    auto byte = hn::Zero(d);
    for (uint32_t field = 0; field < 8 / kBits; ++field) {
      const auto v = hn::LoadU(d, values + 8 * kBits * field + j);
      const auto part = hn::And(shift_bytes(v, -static_cast<int>(shift)), mask);
      byte = hn::Or(byte, shift_bytes(part, static_cast<int>(kBits * field)));
    }
    hn::StoreU(byte, d, dst + j);
  }
}

/// One byte of each value: its `bits` lowest bits are in the planes.
HWY_INLINE void unpack_byte(uint8_t* values, const uint8_t* src, uint32_t bits) {
  if (bits >= 8) return unpack_plane<8>(values, src, 0);
  uint32_t shift = 0;
  if (bits >= 4) unpack_plane<4>(values, src, 0), shift = 4;
  if (bits - shift >= 2) unpack_plane<2>(values, src + size_t{8} * shift, shift), shift += 2;
  if (bits - shift >= 1) unpack_plane<1>(values, src + size_t{8} * shift, shift);
}

HWY_INLINE void pack_byte(uint8_t* dst, const uint8_t* values, uint32_t bits) {
  if (bits >= 8) return pack_plane<8>(dst, values, 0);
  uint32_t shift = 0;
  if (bits >= 4) pack_plane<4>(dst, values, 0), shift = 4;
  if (bits - shift >= 2) pack_plane<2>(dst + size_t{8} * shift, values, shift), shift += 2;
  if (bits - shift >= 1) pack_plane<1>(dst + size_t{8} * shift, values, shift);
}

HWY_INLINE void clear(uint8_t* values) {
  const ByteTag<> d;
  for (uint32_t i = 0; i < kUnit; i += HWY_MAX_BYTES) hn::Store(hn::Zero(d), d, values + i);
}

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

/// Encodings and sums in memory: what reading and writing a unit needs to know.
struct Form {
  uint32_t width;
  bool looked_up;  ///< indices into a table that is not the identity

  HWY_INLINE Form(const codec::Thc& thc, uint32_t room) : width(thc.width(room)), looked_up(room <= 1 && !thc.uniform) {}

  HWY_INLINE void read(Unit& unit, const uint8_t* src, const Tables& tables) const {
    unpack_byte(unit.low, src, width);
    if (width > 8) {
      unpack_byte(unit.high, src + 64, width - 8);
    } else {
      clear(unit.high);
    }
    if (!looked_up) return;
    const ByteTag<> d;
    for (uint32_t i = 0; i < kUnit; i += HWY_MAX_BYTES) {
      hn::Store(hn::TableLookupBytes(tables.table, hn::Load(d, unit.low + i)), d, unit.low + i);
    }
  }
  HWY_INLINE void write(uint8_t* dst, const Unit& unit) const {
    pack_byte(dst, unit.low, width);
    if (width > 8) pack_byte(dst + 64, unit.high, width - 8);
  }
};

// --- quantising ----------------------------------------------------------------------------------------------------------------

/// Rotated coordinates to fixed point in the lower 16 bits; the upper ones are noise.
HWY_INLINE WordVector fixed_point(FloatVector y, FloatVector factor, FloatVector middle, FloatVector top) {
  const FloatTag df;
  const FloatVector shifted = hn::Add(hn::Mul(y, factor), middle);
  const FloatVector clamped = hn::Min(hn::Max(shifted, hn::Zero(df)), top);
  return hn::BitCast(WordTag(), hn::Add(clamped, hn::Set(df, 8388608.0F)));
}

/// `one` in every lane where a > b.
template <class V>
HWY_INLINE V one_where_greater(V a, V b, V one) {
  return hn::IfThenElseZero(hn::Gt(a, b), one);
}

/// Indices of bytes with integer part `whole`, fraction `part` and dither `r`.
template <uint32_t kLevels>
HWY_INLINE ByteVector quantise_bytes(ByteVector whole, ByteVector part, ByteVector r, const Tables& tables) {
  const ByteTag<> d;
  const hn::Repartition<uint16_t, ByteTag<>> d16;
  ByteVector k = hn::Zero(d);
  for (uint32_t step = kLevels / 2; step > 0; step /= 2) {
    const ByteVector candidate = hn::Or(k, hn::Set(d, static_cast<uint8_t>(step)));
    const ByteVector least = hn::TableLookupBytes(tables.table, candidate);
    k = hn::IfThenElse(hn::Eq(hn::Max(whole, least), whole), candidate, k);
  }
  const auto rest = hn::BitCast(d16, hn::Sub(whole, hn::TableLookupBytes(tables.table, k)));
  const auto gap = hn::BitCast(d16, hn::TableLookupBytes(tables.gap, k));
  const auto low = hn::BitCast(d16, part), dither = hn::BitCast(d16, r);
  const auto mask = hn::Set(d16, uint16_t{0xff});
  const auto even_gap = hn::And(gap, mask), odd_gap = hn::ShiftRight<8>(gap);
  const auto even_bound = hn::Add(hn::Mul(hn::And(dither, mask), even_gap), hn::ShiftRight<1>(even_gap));
  const auto odd_bound = hn::Add(hn::Mul(hn::ShiftRight<8>(dither), odd_gap), hn::ShiftRight<1>(odd_gap));
  const auto even_rest = hn::Or(hn::And(low, mask), hn::ShiftLeft<8>(rest));
  const auto odd_rest = hn::Or(hn::ShiftRight<8>(low), hn::AndNot(mask, rest));
  const auto ups = hn::Or(one_where_greater(even_rest, even_bound, hn::Set(d16, uint16_t{1})),
                          one_where_greater(odd_rest, odd_bound, hn::Set(d16, uint16_t{0x100})));
  return hn::Add(k, hn::BitCast(d, ups));
}

/// kLevels 0: the identity of any size.
template <uint32_t kLevels>
HWY_INLINE void quantise_units(uint8_t* dst, const Form& form, bool values, const float* from, const Tables& tables, const CodecKey& key,
                               const ThcPlace& place, const ThcQuantiser& q) {
  const FloatTag df;
  const WordTag d32;
  const ByteTag<> d8;
  const hn::Repartition<uint16_t, WordTag> d16;
  const FloatVector factor = hn::Set(df, q.factor), middle = hn::Set(df, q.middle), top = hn::Set(df, q.top);
  const WordVector even = hn::Set(d32, 0x00ff00ffU);
  HWY_ALIGN uint32_t words[kTileWords];
  Unit unit;
  clear(unit.high);
  for (uint32_t at = 0; at < place.elements; at += kUnit) {
    const uint64_t position = place.position + at;
    if (at == 0 || position % kDitherTile == 0) philox_tile(words, key.seed, position / kDitherTile, q.counter);
    for (uint32_t i = 0; i < 16; i += kLanes) {
      const auto coordinate = [&](uint32_t part)
                                  HWY_ATTR { return fixed_point(hn::Load(df, from + at + 16 * part + i), factor, middle, top); };
      const auto pair = [&](WordVector first, WordVector second) HWY_ATTR {
        return hn::BitCast(d32, hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(second)), hn::BitCast(d16, first)));
      };
      const WordVector a = pair(coordinate(0), coordinate(2)), b = pair(coordinate(1), coordinate(3));
      const ByteVector part = hn::BitCast(d8, hn::Or(hn::And(a, even), hn::ShiftLeft<8>(hn::And(b, even))));
      const ByteVector whole = hn::BitCast(d8, hn::Or(hn::And(hn::ShiftRight<8>(a), even), hn::AndNot(even, b)));
      const WordVector random = hn::Load(d32, words + position % kDitherTile / 4 + i);
      const ByteVector r = hn::Add(hn::BitCast(d8, random), hn::Set(d8, q.stratum));
      ByteVector index;
      if constexpr (kLevels == 0) {
        index = hn::Sub(whole, hn::VecFromMask(d8, hn::Lt(r, part)));
      } else {
        index = quantise_bytes<kLevels>(whole, part, r, tables);
        if (values) index = hn::TableLookupBytes(tables.table, index);
      }
      hn::Store(index, d8, unit.low + 4 * i);
    }
    form.write(dst, unit);
    dst += 8 * form.width;
  }
}

inline void quantise(uint8_t* dst, uint32_t room, const float* from, const codec::Thc& thc, const CodecKey& key, const ThcPlace& place,
                     const ThcQuantiser& q) {
  const DefaultFloatEnvironment environment(true);
  const Form form(thc, room);
  const Tables tables(thc);
  if (thc.uniform) return quantise_units<0>(dst, form, false, from, tables, key, place, q);
  if (thc.config.bits == 4) return quantise_units<16>(dst, form, room > 1, from, tables, key, place, q);
  if (thc.config.bits == 3) return quantise_units<8>(dst, form, room > 1, from, tables, key, place, q);
  return quantise_units<4>(dst, form, room > 1, from, tables, key, place, q);
}

// --- sums ----------------------------------------------------------------------------------------------------------------------

/// Bytes plus table values of 4-bit indices: 32 bytes of these make 64 of those.
HWY_INLINE void add_nibbles(uint8_t* dst, const uint8_t* sums, const uint8_t* indices, size_t units, const codec::Thc& thc) {
  const ByteTag<32> d;
  const bool looked_up = !thc.uniform;
  const auto mask = hn::Set(d, uint8_t{15});
  HWY_ALIGN uint8_t bytes[16];
  std::memcpy(bytes, &thc.table, 16);
  const auto table = hn::LoadDup128(d, bytes);
  for (; units > 0; --units, dst += 64, sums += 64, indices += 32) {
    for (uint32_t j = 0; j < 32; j += static_cast<uint32_t>(hn::Lanes(d))) {
      const auto pair = hn::LoadU(d, indices + j);
      auto first = hn::And(pair, mask), second = hn::And(shift_bytes_right<4>(pair), mask);
      if (looked_up) {
        first = hn::TableLookupBytes(table, first);
        second = hn::TableLookupBytes(table, second);
      }
      hn::StoreU(hn::Add(hn::LoadU(d, sums + j), first), d, dst + j);
      hn::StoreU(hn::Add(hn::LoadU(d, sums + 32 + j), second), d, dst + 32 + j);
    }
  }
}

HWY_INLINE void add_units(Unit& a, const Unit& b) {
  const ByteTag<> d;
  for (uint32_t i = 0; i < kUnit; i += HWY_MAX_BYTES) {
    const ByteVector other = hn::Load(d, b.low + i);
    const ByteVector low = hn::Add(hn::Load(d, a.low + i), other);
    const ByteVector carry = hn::VecFromMask(d, hn::Lt(low, other));
    const ByteVector high = hn::Sub(hn::Add(hn::Load(d, a.high + i), hn::Load(d, b.high + i)), carry);
    hn::Store(low, d, a.low + i);
    hn::Store(high, d, a.high + i);
  }
}

inline void accumulate(uint8_t* dst, uint32_t room, const uint8_t* a, uint32_t a_room, const uint8_t* b, uint32_t b_room, size_t units,
                       const codec::Thc& thc) {
  const Tables tables(thc);
  const Form to(thc, room), mine(thc, a_room), other(thc, b_room);
  const bool nibbles = thc.config.bits == 4 && to.width == 8;
  if (nibbles && mine.width == 8 && b_room == 1) return add_nibbles(dst, a, b, units, thc);
  if (nibbles && other.width == 8 && a_room == 1) return add_nibbles(dst, b, a, units, thc);
  // Several at a time: bytes that were just stored in pieces cannot be loaded as a whole for a while.
  constexpr size_t kBatch = 8;
  Unit left[kBatch], right[kBatch];
  while (units > 0) {
    const size_t batch = units < kBatch ? units : kBatch;
    for (size_t i = 0; i < batch; ++i) mine.read(left[i], a + i * 8 * mine.width, tables);
    for (size_t i = 0; i < batch; ++i) other.read(right[i], b + i * 8 * other.width, tables);
    for (size_t i = 0; i < batch; ++i) add_units(left[i], right[i]);
    for (size_t i = 0; i < batch; ++i) to.write(dst + i * 8 * to.width, left[i]);
    dst += batch * 8 * to.width;
    a += batch * 8 * mine.width;
    b += batch * 8 * other.width;
    units -= batch;
  }
}

/// Stores 2 value - middle of one unit, from its bytes.
HWY_INLINE void levels_of_bytes(float* to, const uint8_t* low, const uint8_t* high, hn::Vec<hn::RebindToSigned<WordTag>> middle) {
  const FloatTag df;
  const WordTag d32;
  const hn::RebindToSigned<WordTag> di;
  const WordVector mask = hn::Set(d32, 0x1fe);
  for (uint32_t i = 0; i < 16; i += kLanes) {
    const WordVector word = hn::BitCast(d32, hn::LoadU(ByteTag<>(), low + 4 * i));
    WordVector twice[4] = {hn::And(hn::Add(word, word), mask), hn::And(hn::ShiftRight<7>(word), mask),
                           hn::And(hn::ShiftRight<15>(word), mask), hn::And(hn::ShiftRight<23>(word), mask)};
    if (high != nullptr) {
      const WordVector upper = hn::BitCast(d32, hn::LoadU(ByteTag<>(), high + 4 * i));
      const WordVector upper_mask = hn::Set(d32, 0x1fe00);
      twice[0] = hn::Or(twice[0], hn::And(hn::ShiftLeft<9>(upper), upper_mask));
      twice[1] = hn::Or(twice[1], hn::And(hn::Add(upper, upper), upper_mask));
      twice[2] = hn::Or(twice[2], hn::And(hn::ShiftRight<7>(upper), upper_mask));
      twice[3] = hn::Or(twice[3], hn::And(hn::ShiftRight<15>(upper), upper_mask));
    }
    for (uint32_t q = 0; q < 4; ++q) hn::Store(hn::ConvertTo(df, hn::Sub(hn::BitCast(di, twice[q]), middle)), df, to + 16 * q + i);
  }
}

inline void levels(float* to, const uint8_t* src, uint32_t room, uint32_t summands, uint32_t elements, const codec::Thc& thc) {
  const DefaultFloatEnvironment environment(true);
  const Form form(thc, room);
  const Tables tables(thc);
  const auto middle = hn::Set(hn::RebindToSigned<WordTag>(), static_cast<int32_t>(summands * thc.config.granularity));
  Unit unit;
  for (uint32_t at = 0; at < elements; at += kUnit, src += 8 * form.width) {
    if (form.width == 8 && !form.looked_up) {
      levels_of_bytes(to + at, src, nullptr, middle);
      continue;
    }
    form.read(unit, src, tables);
    levels_of_bytes(to + at, unit.low, form.width > 8 ? unit.high : nullptr, middle);
  }
}

// --- decoding sums of bytes ----------------------------------------------------------------------------------------------------
// Levels of 8-bit sums are integers of at most 255 in magnitude, so every stage of their transform is exact whatever its order, and the
// first seven fit 16 bits: twice as many elements in a vector.

using ShortTag = hn::ScalableTag<int16_t>;
using ShortVector = hn::Vec<ShortTag>;

/// Pairs of elements in 32-bit words, among words at distance kHalf.
template <uint32_t kHalf>
HWY_INLINE ShortVector butterfly_words(ShortVector v) {
  const ShortTag d;
  const WordTag d32;
  const WordVector words = hn::BitCast(d32, v);
  WordVector swapped = words;
  if constexpr (kHalf == 1) swapped = hn::Reverse2(d32, words);
  if constexpr (kHalf == 2) swapped = hn::Shuffle1032(words);
  if constexpr (kHalf == 4) swapped = hn::SwapAdjacentBlocks(words);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kHalf == 8) swapped = hn::ConcatLowerUpper(d32, words, words);
#endif
  const ShortVector other = hn::BitCast(d, swapped);
  const auto upper = hn::Ne(hn::And(hn::Iota(d32, 0), hn::Set(d32, kHalf)), hn::Zero(d32));
  return hn::BitCast(d, hn::IfThenElse(upper, hn::BitCast(d32, hn::Sub(other, v)), hn::BitCast(d32, hn::Add(v, other))));
}

HWY_INLINE ShortVector transform_words(ShortVector v) {
  v = butterfly_words<2>(butterfly_words<1>(v));
  if constexpr (kLanes > 4) v = butterfly_words<4>(v);
  if constexpr (kLanes > 8) v = butterfly_words<8>(v);
  return v;
}

/// Both 16-bit halves of every word to floats: their sum at `to`, their difference 32 elements on.
HWY_INLINE void widen_pairs(float* to, ShortVector v) {
  const FloatTag df;
  const hn::RebindToSigned<WordTag> di;
  const auto words = hn::BitCast(di, v);
  const auto first = hn::ShiftRight<16>(hn::ShiftLeft<16>(words)), second = hn::ShiftRight<16>(words);
  hn::Store(hn::ConvertTo(df, hn::Add(first, second)), df, to);
  hn::Store(hn::ConvertTo(df, hn::Sub(first, second)), df, to + 32);
}

/// The transform of four units whose words are whole vectors: 256 elements.
HWY_INLINE void transform_bytes(float* to, const uint8_t* src, ShortVector middle) {
  const ShortTag d;
  const hn::Repartition<uint16_t, ShortTag> d16;
  ShortVector even[4], odd[4];  // of each unit: elements 0 to 15 with 32 to 47, and 16 to 31 with 48 to 63
  for (uint32_t unit = 0; unit < 4; ++unit) {
    const auto bytes = hn::BitCast(d16, hn::LoadU(ByteTag<>(), src + kUnit * unit));
    const auto low = hn::BitCast(d, hn::And(bytes, hn::Set(d16, uint16_t{0xff}))), high = hn::BitCast(d, hn::ShiftRight<8>(bytes));
    const auto sum = hn::Add(low, high), difference = hn::Sub(low, high);
    even[unit] = transform_words(hn::Sub(hn::Add(sum, sum), hn::Add(middle, middle)));
    odd[unit] = transform_words(hn::Add(difference, difference));
  }
  for (ShortVector* v : {even, odd}) {
    for (uint32_t i = 0; i < 4; i += 2) {
      const ShortVector a = v[i], b = v[i + 1];
      v[i] = hn::Add(a, b);
      v[i + 1] = hn::Sub(a, b);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      const ShortVector a = v[i], b = v[i + 2];
      v[i] = hn::Add(a, b);
      v[i + 2] = hn::Sub(a, b);
    }
  }
  for (uint32_t unit = 0; unit < 4; ++unit) {
    widen_pairs(to + kUnit * unit, even[unit]);
    widen_pairs(to + kUnit * unit + 16, odd[unit]);
  }
}

inline void decode(float* to, float* work, const uint8_t* src, uint32_t room, uint32_t summands, const codec::Thc& thc, const CodecKey& key,
                   const ThcPlace& place, float factor, bool past_caches) {
  const Form form(thc, room);
  const bool exact = form.width == 8 && !form.looked_up && summands * thc.config.granularity < 256;
  if (place.elements < 8 * kLanes) {
    levels(work, src, room, summands, place.elements, thc);
    unrotate(work, key, place, factor);
    if (to != work) std::memcpy(to, work, place.elements * sizeof(float));
    return;
  }
  const DefaultFloatEnvironment environment(true);
  if (kLanes == 16 && exact && place.elements >= 4 * kUnit) {
    const auto middle = hn::Set(ShortTag(), static_cast<int16_t>(summands * thc.config.granularity));
    for (uint32_t at = 0; at < place.elements; at += 4 * kUnit) transform_bytes(work + at, src + at, middle);
    return finish_unrotating(to, work, key, place, factor, 4 * kUnit, past_caches);
  }
  const FloatTag df;
  levels(work, src, room, summands, place.elements, thc);
  first_stages(work, place.elements, [&](uint32_t index) HWY_ATTR { return hn::Load(df, work + index); });
  finish_unrotating(to, work, key, place, factor, 8 * kLanes, past_caches);
}

inline constexpr ThcKernels kThc = {.load = load,
                                    .store = store,
                                    .squares = squares,
                                    .rotate = rotate,
                                    .unrotate = unrotate,
                                    .quantise = quantise,
                                    .accumulate = accumulate,
                                    .levels = levels,
                                    .decode = decode};

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
