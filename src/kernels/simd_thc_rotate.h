// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, first part: random words, signs, the Hadamard transform, squares, loads and stores. Included
// only by simd_thc.h, inside objects compiled for one instruction set (see simd_reduce.h for what that forbids). Results equal
// thc_arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/float_environment.h"
#include "kernels/targets.h"
#include "kernels/thc_layout.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using WordTag = hn::ScalableTag<uint32_t>;
using FloatVector = hn::Vec<FloatTag>;
using WordVector = hn::Vec<WordTag>;
inline constexpr uint32_t kLanes = HWY_MAX_BYTES / sizeof(float);

// --- random words --------------------------------------------------------------------------------------------------------------

/// Philox counters in 64-bit lanes, whose upper halves are noise.
struct PhiloxLanes {
  using Tag = hn::ScalableTag<uint64_t>;
  using V = hn::Vec<Tag>;
  V x0, x1, x2, x3;

  HWY_INLINE void round(WordVector m0, WordVector m1, V k0, V k1) {
    const WordTag d32;
    const V p0 = hn::MulEven(hn::BitCast(d32, x0), m0), p1 = hn::MulEven(hn::BitCast(d32, x2), m1);
    x0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), x1), k0);
    x2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), x3), k1);
    x1 = p1;
    x3 = p0;
  }
};

/// kTileWords words of the tile, in the order of thc_layout.h.
HWY_INLINE void philox_tile(uint32_t* HWY_RESTRICT words, uint64_t seed, uint64_t tile, const uint32_t* counter) {
  const PhiloxLanes::Tag d64;
  const WordTag d32;
  const WordVector m0 = hn::Set(d32, 0xD2511F53U), m1 = hn::Set(d32, 0xCD9E8D57U);
  for (uint32_t from = 0; from < kTileCounters; from += kLanes) {
    const auto base = static_cast<uint32_t>(tile * kTileCounters + from);
    PhiloxLanes even = {hn::Add(hn::ShiftLeft<1>(hn::Iota(d64, 0)), hn::Set(d64, base)), hn::Set(d64, counter[0]), hn::Set(d64, counter[1]),
                        hn::Set(d64, counter[2])};
    PhiloxLanes odd = even;
    odd.x0 = hn::Add(even.x0, hn::Set(d64, 1));
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto key0 = hn::Set(d64, k0), key1 = hn::Set(d64, k1);
      even.round(m0, m1, key0, key1);
      odd.round(m0, m1, key0, key1);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    const auto join = [](PhiloxLanes::V e, PhiloxLanes::V o) HWY_ATTR {
      const WordTag d;
      return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(o)), hn::BitCast(d, e));
    };
    hn::Store(join(even.x0, odd.x0), d32, words + from);
    hn::Store(join(even.x1, odd.x1), d32, words + kTileCounters + from);
    hn::Store(join(even.x2, odd.x2), d32, words + 2 * kTileCounters + from);
    hn::Store(join(even.x3, odd.x3), d32, words + 3 * kTileCounters + from);
  }
}

/// The signs of a group, made before they are needed.
class Signs {
 public:
  HWY_INLINE Signs(const CodecKey& key, const ThcPlace& place) : offset_(static_cast<uint32_t>(place.position % kSignTile)) {
    const uint32_t counter[3] = {low_counter(key.op), 0, stream_counter(Stream::signs, key.op)};
    const uint64_t tile = place.position / kSignTile;
    for (uint32_t at = 0; at * kSignTile < offset_ + place.elements; ++at)
      philox_tile(words_ + at * kTileWords, key.seed, tile + at, counter);
  }
  /// kLanes elements from `index` on, with their signs.
  HWY_INLINE FloatVector flip(FloatVector v, uint32_t index) const {
    const FloatTag df;
    const uint32_t at = offset_ + index;
#if HWY_TARGET <= HWY_AVX3
    const auto minus = hn::LoadMaskBits(df, reinterpret_cast<const uint8_t*>(words_) + at / 8);
    return hn::IfThenElse(minus, hn::Neg(v), v);
#else
    const WordTag d32;
    const WordVector bits = hn::Set(d32, words_[at / 32] >> (at % 32));
    const WordVector top = hn::Shl(bits, hn::Sub(hn::Set(d32, 31), hn::Iota(d32, 0)));
    return hn::Xor(v, hn::BitCast(df, hn::And(top, hn::Set(d32, 0x80000000U))));
#endif
  }

 private:
  uint32_t offset_;
  HWY_ALIGN uint32_t words_[codec::kMaxGroup / kSignTile * kTileWords];
};

// --- the transform -------------------------------------------------------------------------------------------------------------

/// Lanes whose number has bit `half` are subtracted from their partners, the others added to theirs.
template <uint32_t kHalf>
HWY_INLINE FloatVector butterfly_lanes(FloatVector v) {
  const FloatTag df;
  const WordTag d32;
  const WordVector lower = hn::And(hn::Iota(d32, 0), hn::Set(d32, kHalf));
  const WordVector sign = hn::And(hn::Sub(hn::Zero(d32), lower), hn::Set(d32, 0x80000000U));
  const FloatVector negated = hn::Xor(v, hn::BitCast(df, sign));
  if constexpr (kHalf == 1) return hn::Add(hn::Reverse2(df, v), negated);
  if constexpr (kHalf == 2) return hn::Add(hn::Shuffle1032(v), negated);
  if constexpr (kHalf == 4) return hn::Add(hn::SwapAdjacentBlocks(v), negated);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kHalf == 8) return hn::Add(hn::ConcatLowerUpper(df, v, v), negated);
#endif
}

HWY_INLINE FloatVector transform_lanes(FloatVector v) {
  v = butterfly_lanes<2>(butterfly_lanes<1>(v));
  if constexpr (kLanes > 4) v = butterfly_lanes<4>(v);
  if constexpr (kLanes > 8) v = butterfly_lanes<8>(v);
  return v;
}

/// kRadix vectors among each other, neighbours first.
template <uint32_t kRadix>
HWY_INLINE void transform_vectors(FloatVector* v) {
  for (uint32_t half = 1; half < kRadix; half *= 2) {
    for (uint32_t i = 0; i < kRadix; ++i) {
      if ((i & half) != 0) continue;
      const FloatVector a = v[i], b = v[i + half];
      v[i] = hn::Add(a, b);
      v[i + half] = hn::Sub(a, b);
    }
  }
}

/// The stages up to 8 vectors; `in(index)` is the element vector there.
template <class In>
HWY_INLINE void first_stages(float* to, uint32_t elements, const In& in) {
  const FloatTag df;
  for (uint32_t base = 0; base < elements; base += 8 * kLanes) {
    FloatVector v[8];
    for (uint32_t r = 0; r < 8; ++r) v[r] = transform_lanes(in(base + r * kLanes));
    transform_vectors<8>(v);
    for (uint32_t r = 0; r < 8; ++r) hn::Store(v[r], df, to + base + r * kLanes);
  }
}

/// log2(kRadix) stages from distance `half` on; out(vector, index) stores.
template <uint32_t kRadix, class Out>
HWY_INLINE void stages(const float* data, uint32_t elements, uint32_t half, const Out& out) {
  const FloatTag df;
  for (uint32_t block = 0; block < elements; block += kRadix * half) {
    for (uint32_t i = block; i < block + half; i += kLanes) {
      FloatVector v[kRadix];
      for (uint32_t r = 0; r < kRadix; ++r) v[r] = hn::Load(df, data + i + r * half);
      transform_vectors<kRadix>(v);
      for (uint32_t r = 0; r < kRadix; ++r) out(v[r], i + r * half);
    }
  }
}

/// The stages from distance `half` on; out(vector, index) stores every vector, once, after the last.
template <class Out>
HWY_INLINE void other_stages(float* data, uint32_t elements, uint32_t half, const Out& out) {
  const FloatTag df;
  const auto keep = [&](FloatVector v, uint32_t index) HWY_ATTR { hn::Store(v, df, data + index); };
  constexpr uint32_t kMost = kLanes == 16 ? 16 : 8;  // vectors that registers hold
  for (; elements / half > kMost; half *= 8) stages<8>(data, elements, half, keep);
  switch (elements / half) {
    case 16:
      return stages<kMost>(data, elements, half, out);
    case 8:
      return stages<8>(data, elements, half, out);
    case 4:
      return stages<4>(data, elements, half, out);
    case 2:
      return stages<2>(data, elements, half, out);
    default:
      return stages<1>(data, elements, elements, out);
  }
}

inline void rotate(float* to, const float* from, const CodecKey& key, const ThcPlace& place, float factor) {
  if (place.elements < 8 * kLanes) return scalar::rotate(to, from, key, place, factor);
  const DefaultFloatEnvironment environment(true);
  const FloatTag df;
  const Signs signs(key, place);
  const FloatVector scale = hn::Set(df, factor);
  first_stages(to, place.elements, [&](uint32_t index) HWY_ATTR { return signs.flip(hn::Mul(hn::LoadU(df, from + index), scale), index); });
  if (place.elements == 8 * kLanes) return;
  other_stages(to, place.elements, 8 * kLanes, [&](FloatVector v, uint32_t index) HWY_ATTR { hn::Store(v, df, to + index); });
}

/// The stages from distance `half` on, then factor and signs.
HWY_INLINE void finish_unrotating(float* to, float* data, const CodecKey& key, const ThcPlace& place, float factor, uint32_t half,
                                  bool past_caches) {
  const FloatTag df;
  const Signs signs(key, place);
  const FloatVector scale = hn::Set(df, factor);
  const auto result = [&](FloatVector v, uint32_t index) HWY_ATTR { return signs.flip(hn::Mul(v, scale), index); };
  if (past_caches && reinterpret_cast<uintptr_t>(to) % HWY_MAX_BYTES == 0) {
    other_stages(data, place.elements, half, [&](FloatVector v, uint32_t index) HWY_ATTR { hn::Stream(result(v, index), df, to + index); });
    return hwy::FlushStream();
  }
  other_stages(data, place.elements, half, [&](FloatVector v, uint32_t index) HWY_ATTR { hn::StoreU(result(v, index), df, to + index); });
}

inline void unrotate(float* data, const CodecKey& key, const ThcPlace& place, float factor) {
  if (place.elements < 8 * kLanes) return scalar::unrotate(data, key, place, factor);
  const DefaultFloatEnvironment environment(true);
  const FloatTag df;
  first_stages(data, place.elements, [&](uint32_t index) HWY_ATTR { return hn::Load(df, data + index); });
  finish_unrotating(data, data, key, place, factor, 8 * kLanes, false);
}

inline float squares(const float* from, uint32_t elements) {
  const DefaultFloatEnvironment environment(true);
  const FloatTag df;
  constexpr uint32_t kSums = 64 / kLanes;
  FloatVector sum[kSums];
  for (auto& part : sum) part = hn::Zero(df);
  for (uint32_t i = 0; i < elements; i += 64) {
    for (uint32_t k = 0; k < kSums; ++k) {
      const FloatVector v = hn::LoadU(df, from + i + k * kLanes);
      sum[k] = hn::Add(sum[k], hn::Mul(v, v));
    }
  }
  HWY_ALIGN float sums[64];
  for (uint32_t k = 0; k < kSums; ++k) hn::Store(sum[k], df, sums + k * kLanes);
  for (uint32_t half = 32; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  return sums[0];
}

// --- loads and stores ----------------------------------------------------------------------------------------------------------

HWY_INLINE void load_whole(float* to, const void* from, DataType type, size_t count) {
  const FloatTag df;
  const WordTag d32;
  const hn::Rebind<uint16_t, FloatTag> d16;
  const auto* halves = static_cast<const uint16_t*>(from);
  for (size_t i = 0; i < count; i += kLanes) {
    if (type == DataType::float32) {
      hn::Store(hn::LoadU(df, static_cast<const float*>(from) + i), df, to + i);
    } else if (type == DataType::bfloat16) {
      hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, halves + i)))), df, to + i);
    } else {
#if HWY_TARGET <= HWY_AVX2
      const hn::Rebind<hwy::float16_t, FloatTag> dh;
      hn::Store(hn::PromoteTo(df, hn::LoadU(dh, static_cast<const hwy::float16_t*>(from) + i)), df, to + i);
#endif
    }
  }
}

HWY_INLINE bool has_vectors(DataType type, size_t stride) {
  if (stride != 1) return false;
#if HWY_TARGET <= HWY_AVX2
  if (type == DataType::float16) return true;
#endif
  return type == DataType::float32 || type == DataType::bfloat16;
}

inline void load(float* to, const CodecInput& in, uint32_t elements) {
  const size_t whole = has_vectors(in.type, in.stride) && in.residual == nullptr ? in.count / kLanes * kLanes : 0;
  CodecInput rest = in;
  if (whole > 0) {
    const DefaultFloatEnvironment environment(true);
    load_whole(to, in.data, in.type, whole);
    rest.data = static_cast<const unsigned char*>(in.data) + whole * (in.type == DataType::float32 ? 4 : 2);
    rest.count -= whole;
  }
  if (whole < elements) scalar::load(to + whole, rest, static_cast<uint32_t>(elements - whole));
}

HWY_INLINE void store_whole(void* to, DataType type, const float* from, size_t count) {
  const FloatTag df;
  const WordTag d32;
  const hn::Rebind<uint16_t, FloatTag> d16;
  for (size_t i = 0; i < count; i += kLanes) {
    const FloatVector v = hn::Load(df, from + i);
    if (type == DataType::float32) {
      hn::StoreU(v, df, static_cast<float*>(to) + i);
    } else if (type == DataType::bfloat16) {
      const WordVector bits = hn::BitCast(d32, v);
      const WordVector odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
      const WordVector rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
      const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
      const WordVector result = hn::IfThenElse(is_nan, hn::Set(d32, 0x7fc0), rounded);
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<WordTag>(), result)), d16, static_cast<uint16_t*>(to) + i);
    } else {
#if HWY_TARGET <= HWY_AVX2
      const hn::Rebind<hwy::float16_t, FloatTag> dh;
      const FloatVector canonical = hn::IfThenElse(hn::IsNaN(v), hn::Set(df, __builtin_nanf("")), v);
      hn::StoreU(hn::DemoteTo(dh, canonical), dh, static_cast<hwy::float16_t*>(to) + i);
#endif
    }
  }
}

inline void store(const CodecOutput& out, const float* from) {
  const size_t whole = has_vectors(out.type, out.stride) ? out.count / kLanes * kLanes : 0;
  CodecOutput rest = out;
  if (whole > 0) {
    const DefaultFloatEnvironment environment(true);
    store_whole(out.data, out.type, from, whole);
    rest.data = static_cast<unsigned char*>(out.data) + whole * (out.type == DataType::float32 ? 4 : 2);
    rest.count -= whole;
  }
  if (rest.count > 0) scalar::store(rest, from + whole);
}

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
