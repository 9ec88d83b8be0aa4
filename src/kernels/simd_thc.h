// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, third part: quantising, planes of bits, sums, and the table. Included by simd_reduce.h,
// inside objects compiled for one instruction set. Bytes are in storage order (thc_layout.h) everywhere, so nothing crosses lanes.
// Results equal thc_arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include <cstring>

#include "kernels/simd_thc_sums.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

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

using UnsignedShortTag = hn::Repartition<uint16_t, WordTag>;
using UnsignedShortVector = hn::Vec<UnsignedShortTag>;

/// How to find the greatest k with table[k] <= whole, for a table of at most 16 values.
struct Search {
  HWY_ALIGN uint8_t first[16];   ///< for the numbers up to 15, or for whole >> shift: the greatest k that it may be
  HWY_ALIGN uint8_t second[16];  ///< for those from 16 on
  bool direct;                   ///< first and second have every number
  int shift = 0;
  uint32_t steps = 0;  ///< how often that k may have to go down by one

  HWY_INLINE explicit Search(const codec::Thc& thc) : direct(thc.config.granularity < 32) {
    const auto* below = reinterpret_cast<const uint8_t*>(&thc.below);
    std::memcpy(first, below, 16);
    std::memcpy(second, below + 16, 16);
    if (direct) return;
    while (thc.config.granularity >> shift >= 16) ++shift;
    for (uint32_t cell = 0; cell < 16; ++cell) {
      const uint32_t low = below[cell << shift], high = below[((cell + 1) << shift) - 1];
      first[cell] = static_cast<uint8_t>(high);
      steps = high - low > steps ? high - low : steps;
    }
  }
};

/// Whether a product of a gap and a dither byte fits 16 bits with a sign.
HWY_INLINE bool has_small_gaps(const codec::Thc& thc) {
  const auto* table = reinterpret_cast<const uint8_t*>(&thc.table);
  if (thc.config.granularity < 128) return true;
  for (uint32_t k = 1; k < thc.levels(); ++k) {
    if (table[k] - table[k - 1] > 127) return false;
  }
  return true;
}

/// Indices into tables, made of fixed-point coordinates and dither bytes.
template <bool kDirect>
class TableQuantiser {
 public:
  HWY_INLINE TableQuantiser(const Tables& tables, const Search& search, uint8_t stratum)
      : tables_(tables),
        first_(hn::LoadDup128(ByteTag<>(), search.first)),
        second_(hn::LoadDup128(ByteTag<>(), search.second)),
        half_gap_(hn::And(shift_bytes_right<1>(tables.gap), hn::Set(ByteTag<>(), uint8_t{0x7f}))),
        bias_(hn::Set(ByteTag<>(), uint8_t{0x70})),
        sixteen_(hn::Set(ByteTag<>(), uint8_t{16})),
        cell_(hn::Set(ByteTag<>(), static_cast<uint8_t>(0xffU >> search.shift))),
        stratum_(hn::Set(ByteTag<>(), stratum)),
        shift_(search.shift),
        steps_(search.steps) {}

  /// Of coordinates in the 16-bit halves of `even` and `odd`, the bytes of that parity.
  HWY_INLINE ByteVector operator()(UnsignedShortVector even, UnsignedShortVector odd, ByteVector random) const {
    const ByteTag<> d8;
    const UnsignedShortTag d16;
    const UnsignedShortVector low = hn::Set(d16, uint16_t{0xff});
    const ByteVector dither = hn::Add(random, stratum_);
    const ByteVector k = below(hn::OddEven(hn::BitCast(d8, odd), hn::ShiftRightBytes<1>(d8, hn::BitCast(d8, even))));
    const ByteVector base = hn::TableLookupBytes(tables_.table, k), half_gap = hn::TableLookupBytes(half_gap_, k);
    const auto gap = hn::BitCast(d16, hn::TableLookupBytes(tables_.gap, k));
    // Up where dither gap < u - 256 base - half_gap.
    const ByteVector even_base = hn::OddEven(hn::ShiftLeftBytes<1>(d8, base), half_gap);
    const ByteVector odd_base = hn::OddEven(base, hn::ShiftRightBytes<1>(d8, half_gap));
    const auto is_up = [&](UnsignedShortVector u, ByteVector from, UnsignedShortVector factors) HWY_ATTR {
      const ShortTag di;
      const ShortVector rest = hn::BitCast(di, hn::Sub(u, hn::BitCast(d16, from)));
      return hn::BitCast(d8, hn::VecFromMask(di, hn::Gt(rest, multiply_bytes_in_pairs(dither, hn::BitCast(d8, factors)))));
    };
    const ByteVector up = hn::OddEven(is_up(odd, odd_base, hn::AndNot(low, gap)), is_up(even, even_base, hn::And(gap, low)));
    return hn::Sub(k, up);
  }

 private:
  /// The greatest k with table[k] <= whole.
  HWY_INLINE ByteVector below(ByteVector whole) const {
    const ByteTag<> d8;
    if constexpr (kDirect) {  // lookups give 0 where bit 7 is set
      const ByteVector k = hn::TableLookupBytes(first_, hn::SaturatedAdd(whole, bias_));
      return hn::Or(k, hn::TableLookupBytes(second_, hn::Sub(whole, sixteen_)));
    }
    ByteVector k = hn::TableLookupBytes(first_, hn::And(shift_bytes(whole, -shift_), cell_));
    for (uint32_t step = 0; step < steps_; ++step) {
      const ByteVector above = hn::SaturatedSub(hn::TableLookupBytes(tables_.table, k), whole);
      k = hn::Sub(k, hn::Min(above, hn::Set(d8, uint8_t{1})));
    }
    return k;
  }

  const Tables& tables_;
  ByteVector first_, second_, half_gap_, bias_, sixteen_, cell_, stratum_;
  int shift_;
  uint32_t steps_;
};

/// The same where the table is the identity: a coordinate's integer part, and one more where dither is less than its fraction.
class IdentityQuantiser {
 public:
  HWY_INLINE explicit IdentityQuantiser(uint8_t stratum) : last_(hn::Set(ByteTag<>(), static_cast<uint8_t>(255 - stratum))) {}

  HWY_INLINE ByteVector operator()(UnsignedShortVector even, UnsignedShortVector odd, ByteVector random) const {
    const UnsignedShortTag d16;
    const UnsignedShortVector low = hn::Set(d16, uint16_t{0xff});
    const auto complement = hn::BitCast(d16, hn::Sub(last_, random));  // 255 - dither: the fraction's sum with it carries
    const UnsignedShortVector even_sum = hn::Add(even, hn::And(complement, low)), odd_sum = hn::Add(odd, hn::ShiftRight<8>(complement));
    return hn::BitCast(ByteTag<>(), hn::Or(hn::ShiftRight<8>(even_sum), hn::AndNot(low, odd_sum)));
  }

 private:
  ByteVector last_;
};

/// index(even, odd, random): a quantiser as above.
template <class Index>
HWY_INLINE void quantise_units(uint8_t* dst, const Form& form, const float* from, const CodecKey& key, const ThcPlace& place,
                               const ThcQuantiser& q, const Index& index) {
  const FloatTag df;
  const WordTag d32;
  const ByteTag<> d8;
  const UnsignedShortTag d16;
  const FloatVector factor = hn::Set(df, q.factor), middle = hn::Set(df, q.middle), top = hn::Set(df, q.top);
  const Tiles tiles(key.seed, q.counter);
  HWY_ALIGN uint32_t words[kTileWords];
  Unit unit;
  clear(unit.high);
  for (uint32_t at = 0; at < place.elements; at += kUnit) {
    const uint64_t position = place.position + at;
    if (at == 0 || position % kDitherTile == 0) tiles.make(words, position / kDitherTile);
    const uint32_t* random = words + position % kDitherTile / 4;
    ISTHMUS_UNROLL for (uint32_t i = 0; i < 16; i += kLanes) {
      const auto coordinate = [&](uint32_t part) HWY_ATTR {
        return hn::BitCast(d16, fixed_point(hn::Load(df, from + at + 16 * part + i), factor, middle, top));
      };
      const auto pair = [&](UnsignedShortVector first, UnsignedShortVector second)
                            HWY_ATTR { return hn::OddEven(hn::BitCast(d16, hn::ShiftLeftBytes<2>(d8, hn::BitCast(d8, second))), first); };
      const auto dither = hn::BitCast(d8, hn::Load(d32, random + i));
      hn::Store(index(pair(coordinate(0), coordinate(2)), pair(coordinate(1), coordinate(3)), dither), d8, unit.low + 4 * i);
    }
    form.write(dst, unit);
    dst += 8 * form.width;
  }
}

inline void quantise(uint8_t* dst, uint32_t room, const float* from, const codec::Thc& thc, const CodecKey& key, const ThcPlace& place,
                     const ThcQuantiser& q) {
  const DefaultFloatEnvironment environment(true);
  const Form form(thc, room);
  if (thc.uniform) return quantise_units(dst, form, from, key, place, q, IdentityQuantiser(q.stratum));
  if (!has_small_gaps(thc)) return scalar::quantise(dst, room, from, thc, key, place, q);
  const Tables tables(thc);
  const Search search(thc);
  const auto run = [&](const auto& index) HWY_ATTR {
    if (room <= 1) return quantise_units(dst, form, from, key, place, q, index);
    quantise_units(dst, form, from, key, place, q, [&](UnsignedShortVector even, UnsignedShortVector odd, ByteVector random) HWY_ATTR {
      return hn::TableLookupBytes(tables.table, index(even, odd, random));
    });
  };
  if (search.direct) return run(TableQuantiser<true>(tables, search, q.stratum));
  run(TableQuantiser<false>(tables, search, q.stratum));
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

inline void decode(float* to, float* work, const uint8_t* src, uint32_t room, uint32_t summands, const codec::Thc& thc, const CodecKey& key,
                   const ThcPlace& place, float factor, bool past_caches) {
  if (place.elements < kMost * kLanes) {
    levels(work, src, room, summands, place.elements, thc);
    scalar::unrotate(work, key, place, factor);
    if (to != work) std::memcpy(to, work, place.elements * sizeof(float));
    return;
  }
  const DefaultFloatEnvironment environment(true);
  const Form form(thc, room);
  const uint32_t middle = summands * thc.config.granularity;
  if (form.width != 8 || form.looked_up || middle > 255 || place.elements < kSumBlock) {
    levels(work, src, room, summands, place.elements, thc);
    return transform_results(to, work, key, place, factor, past_caches);
  }
  put_results(to, key, place, factor, past_caches, [&](const auto& out) HWY_ATTR {
    switch (place.elements / kSumBlock) {
      case 1:
        return transform_sums<1>(src, middle, out);
      case 2:
        return transform_sums<2>(src, middle, out);
      case 4:
        return transform_sums<4>(src, middle, out);
      case 8:
        return transform_sums<8>(src, middle, out);
      default:
        return transform_sums<16>(src, middle, out);
    }
  });
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
