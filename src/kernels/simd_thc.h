// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, fourth part: encoding, planes of bits, sums, and the table. Included by simd_reduce.h,
// inside objects compiled for one instruction set. Bytes are in storage order (thc_layout.h) everywhere, so nothing crosses lanes.
// Results equal thc_arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include "kernels/simd_thc_quantise.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

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

/// Encodings and sums in memory: what reading and writing a unit needs to know.
struct Form {
  uint32_t width;
  bool looked_up;  ///< indices into a table that is not the identity

  HWY_INLINE Form(const codec::Thc& thc, uint32_t room) : width(thc.width(room)), looked_up(room <= 1 && !thc.uniform) {}

  HWY_INLINE void read(Unit& unit, const uint8_t* src, ByteVector table) const {
    unpack_byte(unit.low, src, width);
    if (width > 8) {
      unpack_byte(unit.high, src + 64, width - 8);
    } else {
      clear(unit.high);
    }
    if (!looked_up) return;
    const ByteTag<> d;
    for (uint32_t i = 0; i < kUnit; i += HWY_MAX_BYTES) {
      hn::Store(hn::TableLookupBytes(table, hn::Load(d, unit.low + i)), d, unit.low + i);
    }
  }
  HWY_INLINE void write(uint8_t* dst, const Unit& unit) const {
    pack_byte(dst, unit.low, width);
    if (width > 8) pack_byte(dst + 64, unit.high, width - 8);
  }
};

// --- encoding ------------------------------------------------------------------------------------------------------------------

/// 4-bit values of one unit, a byte each in fixed point's order, to its only plane.
HWY_INLINE void store_nibbles(uint8_t* dst, const ByteVector* k, const ByteMoves& moves) {
  const ByteTag<> d8;
  if constexpr (kUnitVectors == 1) {
    const hn::Half<ByteTag<>> half;
    const ByteVector stored = moves.stored(k[0]);
    hn::StoreU(hn::Or(hn::LowerHalf(half, stored), shift_bytes(hn::UpperHalf(half, stored), 4)), half, dst);
  } else {
    ISTHMUS_UNROLL for (uint32_t j = 0; j < kUnitVectors / 2; ++j) {
      hn::StoreU(moves.stored(hn::Or(k[j], shift_bytes(k[j + kUnitVectors / 2], 4))), d8, dst + j * HWY_MAX_BYTES);
    }
  }
}

/// `from`: fixed point as join_units leaves it. `index`: a quantiser of simd_thc_quantise.h. finish(k): what becomes of a vector of
/// indices.
template <class Index, class Finish>
HWY_INLINE void quantise_units(uint8_t* dst, const Form& form, const int16_t* from, const CodecKey& key, const ThcPlace& place,
                               const ThcQuantiser& q, const float* next, const Index& index, const Finish& finish) {
  const ByteTag<> d8;
  const Tiles tiles(key.seed, q.counter);
  HWY_ALIGN uint32_t words[kTileWords];
  Unit unit;
  clear(unit.high);
  for (uint32_t at = 0; at < place.elements;) {
    const uint64_t position = place.position + at;
    const auto skipped = static_cast<uint32_t>(position % kDitherTile);
    const uint32_t left = place.elements - at, elements = kDitherTile - skipped < left ? kDitherTile - skipped : left;
    tiles.make(words, position / kDitherTile);
    for (uint32_t i = 0; i < elements; i += kUnit) {
      ISTHMUS_UNROLL for (uint32_t line = 0; line < kUnit; line += 16) hwy::Prefetch(next + at + i + line);
      UnitBytes k;
      index(k, from + at + i, words + (skipped + i) / 4);
      ISTHMUS_UNROLL for (uint32_t v = 0; v < kUnitVectors; ++v) k[v] = finish(k[v]);
      if (form.width == 4) {
        store_nibbles(dst, k, index.moves());
      } else {
        ISTHMUS_UNROLL for (uint32_t v = 0; v < kUnitVectors; ++v) hn::Store(index.moves().stored(k[v]), d8, unit.low + v * HWY_MAX_BYTES);
        form.write(dst, unit);
      }
      dst += 8 * form.width;
    }
    at += elements;
  }
}

/// quantise_units to indices or table values.
inline void quantise(uint8_t* dst, uint32_t room, const int16_t* from, const codec::Thc& thc, const CodecKey& key, const ThcPlace& place,
                     const ThcQuantiser& q, const float* next) {
  const Form form(thc, room);
  const auto as_it_is = [](ByteVector k) HWY_ATTR { return k; };
  if (thc.uniform) return quantise_units(dst, form, from, key, place, q, next, IdentityQuantiser(q), as_it_is);
  const auto run = [&](const auto& index) HWY_ATTR {
    if (room <= 1) return quantise_units(dst, form, from, key, place, q, next, index, as_it_is);
    const ByteVector table = table_of(thc);
    quantise_units(dst, form, from, key, place, q, next, index, [=](ByteVector k) HWY_ATTR { return hn::TableLookupBytes(table, k); });
  };
  const auto run_steps = [&]<Reach kReach>() HWY_ATTR {
    if (thc.search.direct) return run(TableQuantiser<0, kReach>(thc, q));
    if (thc.search.steps <= 1) return run(TableQuantiser<1, kReach>(thc, q));
    if (thc.search.steps <= 2) return run(TableQuantiser<2, kReach>(thc, q));
    run(TableQuantiser<codec::ThcSearch::kMostSteps, kReach>(thc, q));
  };
  const Reach reach = reach_of(q);
  if (reach == Reach::whole) return run_steps.template operator()<Reach::whole>();
  if (reach == Reach::near) return run_steps.template operator()<Reach::near>();
  run_steps.template operator()<Reach::far>();
}

inline void encode(uint8_t* dst, uint32_t room, const float* from, float* work, const codec::Thc& thc, const CodecKey& key,
                   const ThcPlace& place, const ThcQuantiser& q, const void* next) {
  const DefaultFloatEnvironment environment(true);
  if (!(thc.uniform || has_vectors(thc))) return scalar::encode(dst, room, from, work, thc, key, place, q, next);
  auto* shorts = reinterpret_cast<int16_t*>(work);  // what is written never passes what is read, where `from` is `work`
  with_signs(from, key, place, q.normaliser, [&](const auto& in) HWY_ATTR { units_to_shorts(shorts, place.elements, q.factor, in); });
  join_units(shorts, place.elements);
  if (q.shift < 0) add_bits(shorts, place.elements, static_cast<uint32_t>(-q.shift), q.middle);
  quantise(dst, room, shorts, thc, key, place, q, static_cast<const float*>(next != nullptr ? next : work));
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
  const ByteVector table = table_of(thc);
  const Form to(thc, room), mine(thc, a_room), other(thc, b_room);
  const bool nibbles = thc.config.bits == 4 && to.width == 8;
  if (nibbles && mine.width == 8 && b_room == 1) return add_nibbles(dst, a, b, units, thc);
  if (nibbles && other.width == 8 && a_room == 1) return add_nibbles(dst, b, a, units, thc);
  // Several at a time: bytes that were just stored in pieces cannot be loaded as a whole for a while.
  constexpr size_t kBatch = 8;
  Unit left[kBatch], right[kBatch];
  while (units > 0) {
    const size_t batch = units < kBatch ? units : kBatch;
    for (size_t i = 0; i < batch; ++i) mine.read(left[i], a + i * 8 * mine.width, table);
    for (size_t i = 0; i < batch; ++i) other.read(right[i], b + i * 8 * other.width, table);
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
  const ByteVector table = table_of(thc);
  const auto middle = hn::Set(hn::RebindToSigned<WordTag>(), static_cast<int32_t>(summands * thc.config.granularity));
  Unit unit;
  for (uint32_t at = 0; at < elements; at += kUnit, src += 8 * form.width) {
    if (form.width == 8 && !form.looked_up) {
      levels_of_bytes(to + at, src, nullptr, middle);
      continue;
    }
    form.read(unit, src, table);
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
                                    .encode = encode,
                                    .unrotate = unrotate,
                                    .accumulate = accumulate,
                                    .levels = levels,
                                    .decode = decode};

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
