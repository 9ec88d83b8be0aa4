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

// Arrays of vectors are registers only where every index is a constant: loops over them must be unrolled.
#if defined(__clang__)
#define ISTHMUS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ISTHMUS_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using WordTag = hn::ScalableTag<uint32_t>;
using FloatVector = hn::Vec<FloatTag>;
using WordVector = hn::Vec<WordTag>;
inline constexpr uint32_t kLanes = HWY_MAX_BYTES / sizeof(float);

/// 128-bit blocks change places in pairs.
HWY_INLINE WordVector swap_blocks(WordVector v) {
#if HWY_TARGET == HWY_AVX2
  return WordVector{_mm256_permute4x64_epi64(v.raw, _MM_SHUFFLE(1, 0, 3, 2))};  // a third of what the other way takes on old CPUs
#else
  return hn::SwapAdjacentBlocks(v);
#endif
}

// --- random words --------------------------------------------------------------------------------------------------------------

/// Philox 4x32-10 counters in 64-bit lanes, whose upper halves are noise.
struct PhiloxLanes {
  using Tag = hn::ScalableTag<uint64_t>;
  using V = hn::Vec<Tag>;
  V x0, x1, x2, x3;

  HWY_INLINE void round(WordVector m0, WordVector m1, V k0, V k1) {
    const WordTag d32;
    const V p0 = hn::MulEven(hn::BitCast(d32, x0), m0), p1 = hn::MulEven(hn::BitCast(d32, x2), m1);
    x0 = hn::Xor3(upper(p1), x1, k0);
    x2 = hn::Xor3(upper(p0), x3, k1);
    x1 = p1;
    x3 = p0;
  }

 private:
  /// Faster than a shift where shifts have fewer units.
  static HWY_INLINE V upper(V v) { return hn::BitCast(Tag(), hn::Reverse2(WordTag(), hn::BitCast(WordTag(), v))); }
};

/// Tiles of random words of one stream of one call.
class Tiles {
 public:
  /// `counter`: the upper three words.
  HWY_INLINE Tiles(uint64_t seed, const uint32_t* counter) : counter_{counter[0], counter[1], counter[2]} {
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (uint32_t round = 0; round < 10; ++round) {
      keys_[2 * round] = hn::Set(kTag, k0);
      keys_[2 * round + 1] = hn::Set(kTag, k1);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
  }
  /// kTileWords words of the tile, in the order of thc_layout.h.
  HWY_INLINE void make(uint32_t* HWY_RESTRICT words, uint64_t tile) const {
    const WordTag d32;
    const WordVector m0 = hn::Set(d32, 0xD2511F53U), m1 = hn::Set(d32, 0xCD9E8D57U);
    for (uint32_t from = 0; from < kTileCounters; from += kLanes) {
      const auto base = static_cast<uint32_t>(tile * kTileCounters + from);
      PhiloxLanes even = {hn::Add(hn::ShiftLeft<1>(hn::Iota(kTag, 0)), hn::Set(kTag, base)), hn::Set(kTag, counter_[0]),
                          hn::Set(kTag, counter_[1]), hn::Set(kTag, counter_[2])};
      PhiloxLanes odd = even;
      odd.x0 = hn::Add(even.x0, hn::Set(kTag, 1));
      ISTHMUS_UNROLL for (uint32_t round = 0; round < 10; ++round) {
        even.round(m0, m1, keys_[2 * round], keys_[2 * round + 1]);
        odd.round(m0, m1, keys_[2 * round], keys_[2 * round + 1]);
      }
      hn::Store(join(even.x0, odd.x0), d32, words + from);
      hn::Store(join(even.x1, odd.x1), d32, words + kTileCounters + from);
      hn::Store(join(even.x2, odd.x2), d32, words + 2 * kTileCounters + from);
      hn::Store(join(even.x3, odd.x3), d32, words + 3 * kTileCounters + from);
    }
  }

 private:
  static constexpr PhiloxLanes::Tag kTag{};
  static HWY_INLINE WordVector join(PhiloxLanes::V even, PhiloxLanes::V odd) {
    const WordTag d32;
    return hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(odd)), hn::BitCast(d32, even));
  }
  uint32_t counter_[3];
  PhiloxLanes::V keys_[20];  // of each round: from memory they cost nothing
};

/// Each bit of a word.
alignas(64) constexpr uint32_t kBits[32] = {1U << 0,  1U << 1,  1U << 2,  1U << 3,  1U << 4,  1U << 5,  1U << 6,  1U << 7,
                                            1U << 8,  1U << 9,  1U << 10, 1U << 11, 1U << 12, 1U << 13, 1U << 14, 1U << 15,
                                            1U << 16, 1U << 17, 1U << 18, 1U << 19, 1U << 20, 1U << 21, 1U << 22, 1U << 23,
                                            1U << 24, 1U << 25, 1U << 26, 1U << 27, 1U << 28, 1U << 29, 1U << 30, 1U << 31};

/// The signs of a group, made before they are needed.
struct Signs {
  uint32_t offset;
  HWY_ALIGN uint32_t words[codec::kMaxGroup / kSignTile * kTileWords];

  HWY_INLINE Signs(const CodecKey& key, const ThcPlace& place) : offset(static_cast<uint32_t>(place.position % kSignTile)) {
    const uint32_t counter[3] = {low_counter(key.op), 0, stream_counter(Stream::signs, key.op)};
    const Tiles tiles(key.seed, counter);
    const uint64_t tile = place.position / kSignTile;
    for (uint32_t at = 0; at * kSignTile < offset + place.elements; ++at) tiles.make(words + at * kTileWords, tile + at);
  }
};

/// A factor, negative where an element's sign is set. Handed on by value, so that nothing that is stored can change it.
class SignedFactor {
 public:
  HWY_INLINE SignedFactor(const Signs& signs, float factor)
      : words_(signs.words), offset_(signs.offset), plus_(hn::Set(FloatTag(), factor)), minus_(hn::Set(FloatTag(), -factor)) {}

  /// For kLanes elements from `index` on.
  HWY_INLINE FloatVector at(uint32_t index) const {
    const uint32_t at = offset_ + index;
#if HWY_TARGET <= HWY_AVX3
    return hn::IfThenElse(hn::LoadMaskBits(FloatTag(), reinterpret_cast<const uint8_t*>(words_) + at / 8), minus_, plus_);
#else
    const WordTag d32;  // where shifts by different numbers are slow, this is not
    const WordVector bits = hn::Load(d32, kBits + at % 32);
    const auto set = hn::Eq(hn::And(hn::Set(d32, words_[at / 32]), bits), bits);
    return hn::IfThenElse(hn::RebindMask(FloatTag(), set), minus_, plus_);
#endif
  }

 private:
  const uint32_t* words_;
  uint32_t offset_;
  FloatVector plus_, minus_;
};

// --- the transform -------------------------------------------------------------------------------------------------------------

/// Lanes whose number has bit `half` are subtracted from their partners, the others added to theirs. A product with 1 or -1 is exact,
/// so that it makes no difference where the processor fuses it with the addition.
template <uint32_t kHalf>
HWY_INLINE FloatVector butterfly_lanes(FloatVector v) {
  const FloatTag df;
  const WordTag d32;
  const WordVector lower = hn::And(hn::Iota(d32, 0), hn::Set(d32, kHalf));
  const WordVector minus = hn::And(hn::Sub(hn::Zero(d32), lower), hn::Set(d32, 0x80000000U));
  const FloatVector sign = hn::BitCast(df, hn::Or(minus, hn::Set(d32, 0x3f800000U)));
  if constexpr (kHalf == 1) return hn::MulAdd(v, sign, hn::Reverse2(df, v));
  if constexpr (kHalf == 2) return hn::MulAdd(v, sign, hn::Shuffle1032(v));
  if constexpr (kHalf == 4) return hn::MulAdd(v, sign, hn::BitCast(df, swap_blocks(hn::BitCast(d32, v))));
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kHalf == 8) return hn::MulAdd(v, sign, hn::ConcatLowerUpper(df, v, v));
#endif
}

/// The lanes of kCount vectors among each other. Stage by stage, since one vector's stages all wait for each other.
template <uint32_t kCount>
HWY_INLINE void transform_lanes(FloatVector* v) {
  ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_lanes<1>(v[i]);
  ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_lanes<2>(v[i]);
  if constexpr (kLanes > 4) {
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_lanes<4>(v[i]);
  }
  if constexpr (kLanes > 8) {
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kCount; ++i) v[i] = butterfly_lanes<8>(v[i]);
  }
}

/// kRadix vectors, floats or integers, among each other, from distance kFrom on.
template <uint32_t kRadix, uint32_t kFrom = 1, class V>
HWY_INLINE void transform_vectors(V* v) {
  if constexpr (kRadix > kFrom) {
    transform_vectors<kRadix / 2, kFrom>(v);
    transform_vectors<kRadix / 2, kFrom>(v + kRadix / 2);
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kRadix / 2; ++i) {
      const V a = v[i], b = v[i + kRadix / 2];
      v[i] = hn::Add(a, b);
      v[i + kRadix / 2] = hn::Sub(a, b);
    }
  }
}

/// Vectors that registers hold beside a few others.
inline constexpr uint32_t kMost = kLanes == 16 ? 16 : 8;

/// The stages up to kMost vectors; `in(index)` is the element vector there.
template <class In>
HWY_INLINE void first_stages(float* to, uint32_t elements, In in) {
  const FloatTag df;
  for (uint32_t base = 0; base < elements; base += kMost * kLanes) {
    FloatVector v[kMost];
    ISTHMUS_UNROLL for (uint32_t r = 0; r < kMost; ++r) v[r] = in(base + r * kLanes);
    transform_lanes<kMost>(v);
    transform_vectors<kMost>(v);
    ISTHMUS_UNROLL for (uint32_t r = 0; r < kMost; ++r) hn::Store(v[r], df, to + base + r * kLanes);
  }
}

/// log2(kRadix) stages from distance `half` on; out(vector, index) stores.
template <uint32_t kRadix, class Out>
HWY_INLINE void stages(const float* data, uint32_t elements, uint32_t half, Out out) {
  const FloatTag df;
  for (uint32_t block = 0; block < elements; block += kRadix * half) {
    for (uint32_t i = block; i < block + half; i += kLanes) {
      FloatVector v[kRadix];
      ISTHMUS_UNROLL for (uint32_t r = 0; r < kRadix; ++r) v[r] = hn::Load(df, data + i + r * half);
      transform_vectors<kRadix>(v);
      ISTHMUS_UNROLL for (uint32_t r = 0; r < kRadix; ++r) out(v[r], i + r * half);
    }
  }
}

/// The stages from distance `half` on; out(vector, index) stores every vector, once, after the last.
template <class Out>
HWY_INLINE void other_stages(float* data, uint32_t elements, uint32_t half, Out out) {
  const FloatTag df;
  const auto keep = [=](FloatVector v, uint32_t index) HWY_ATTR { hn::Store(v, df, data + index); };
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
  if (place.elements < kMost * kLanes) return scalar::rotate(to, from, key, place, factor);
  const DefaultFloatEnvironment environment(true);
  const FloatTag df;
  const Signs signs(key, place);
  const SignedFactor signed_factor(signs, factor);
  const float* next = from + place.elements;  // asked for while this group is computed: groups mostly follow each other
  first_stages(to, place.elements, [=](uint32_t index) HWY_ATTR {
    hwy::Prefetch(next + index);
    return hn::Mul(hn::LoadU(df, from + index), signed_factor.at(index));
  });
  if (place.elements == kMost * kLanes) return;
  other_stages(to, place.elements, kMost * kLanes, [=](FloatVector v, uint32_t index) HWY_ATTR { hn::Store(v, df, to + index); });
}

/// Calls transform(out), which hands every vector of the transform to out(vector, index), once: times the factor, with its signs, it
/// goes to to[index].
template <class Transform>
HWY_INLINE void put_results(float* to, const CodecKey& key, const ThcPlace& place, float factor, bool past_caches,
                            const Transform& transform) {
  const FloatTag df;
  const Signs signs(key, place);
  const SignedFactor signed_factor(signs, factor);
  if (past_caches && reinterpret_cast<uintptr_t>(to) % HWY_MAX_BYTES == 0) {
    transform([=](FloatVector v, uint32_t index) HWY_ATTR { hn::Stream(hn::Mul(v, signed_factor.at(index)), df, to + index); });
    return hwy::FlushStream();
  }
  transform([=](FloatVector v, uint32_t index) HWY_ATTR { hn::StoreU(hn::Mul(v, signed_factor.at(index)), df, to + index); });
}

/// The whole transform, `data` being its scratch, with put_results.
HWY_INLINE void transform_results(float* to, float* data, const CodecKey& key, const ThcPlace& place, float factor, bool past_caches) {
  const FloatTag df;
  first_stages(data, place.elements, [=](uint32_t index) HWY_ATTR { return hn::Load(df, data + index); });
  put_results(to, key, place, factor, past_caches,
              [&](const auto& out) HWY_ATTR { other_stages(data, place.elements, kMost * kLanes, out); });
}

inline void unrotate(float* data, const CodecKey& key, const ThcPlace& place, float factor) {
  if (place.elements < kMost * kLanes) return scalar::unrotate(data, key, place, factor);
  const DefaultFloatEnvironment environment(true);
  transform_results(data, data, key, place, factor, false);
}

inline float squares(const float* from, uint32_t elements) {
  const DefaultFloatEnvironment environment(true);
  const FloatTag df;
  constexpr uint32_t kSums = 64 / kLanes;
  FloatVector sum[kSums];
  ISTHMUS_UNROLL for (uint32_t k = 0; k < kSums; ++k) sum[k] = hn::Zero(df);
  for (uint32_t i = 0; i < elements; i += 64) {
    ISTHMUS_UNROLL for (uint32_t k = 0; k < kSums; ++k) {
      const FloatVector v = hn::LoadU(df, from + i + k * kLanes);
      sum[k] = hn::Add(sum[k], hn::Mul(v, v));
    }
  }
  HWY_ALIGN float sums[64];
  ISTHMUS_UNROLL for (uint32_t k = 0; k < kSums; ++k) hn::Store(sum[k], df, sums + k * kLanes);
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
