// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's vector kernels, first part: random words, signs, the Hadamard transform, squares, loads and stores. Included
// only by simd_thc.h, inside objects compiled for one instruction set (see simd_reduce.h for what that forbids). Results equal
// thc_arithmetic.h bit for bit. Nothing here can fail.
#pragma once

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

/// Philox 4x32 counters in the lower halves of 64-bit lanes, the upper ones noise.
struct PhiloxLanes {
  using Tag = hn::ScalableTag<uint64_t>;
  using V = hn::Vec<Tag>;
  static constexpr uint32_t kFactor0 = 0xD2511F53U, kFactor1 = 0xCD9E8D57U;
  V x0, x1, x2, x3;

  HWY_INLINE void round(V k0, V k1) {
    const V p0 = product(x0, kFactor0), p1 = product(x2, kFactor1);
    x0 = hn::Xor3(swap(p1), x1, k0);
    x2 = hn::Xor3(swap(p0), x3, k1);
    x1 = p1;
    x3 = p0;
  }
  static HWY_INLINE V product(V v, uint32_t factor) { return hn::MulEven(hn::BitCast(WordTag(), v), hn::Set(WordTag(), factor)); }
  /// The halves of lanes change places. Faster than a shift where shifts have fewer units.
  static HWY_INLINE V swap(V v) { return hn::BitCast(Tag(), hn::Reverse2(WordTag(), hn::BitCast(WordTag(), v))); }
};

/// Tiles of random words of one stream of one call.
class Tiles {
 public:
  /// `counter`: the upper three words.
  HWY_INLINE Tiles(uint64_t seed, const uint32_t* counter) {
    const auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      keys_[2 * round] = both_halves(k0 + round * 0x9E3779B9U);
      keys_[2 * round + 1] = both_halves(k1 + round * 0xBB67AE85U);
    }
    // Half of the first two rounds is the same for all counters: what they make of the upper three words alone.
    const uint64_t first = uint64_t{counter[1]} * PhiloxLanes::kFactor1;
    const uint64_t second = uint64_t{upper(first) ^ counter[0] ^ k0} * PhiloxLanes::kFactor0;
    x2_ = both_halves(counter[2] ^ k1);
    x0_ = both_halves(static_cast<uint32_t>(first) ^ (k0 + 0x9E3779B9U));
    key_ = both_halves(upper(second) ^ (k1 + 0xBB67AE85U));
    x3_ = both_halves(static_cast<uint32_t>(second));
  }
  /// kTileWords words of the tile, in the order of thc_layout.h.
  HWY_INLINE void make(uint32_t* HWY_RESTRICT words, uint64_t tile) const {
    const WordTag d32;
    for (uint32_t from = 0; from < kTileCounters; from += kLanes) {
      const auto base = static_cast<uint32_t>(tile * kTileCounters + from);
      const V counters = hn::Add(hn::ShiftLeft<1>(hn::Iota(kTag, 0)), hn::Set(kTag, base));
      PhiloxLanes even = after_two_rounds(counters), odd = after_two_rounds(hn::Add(counters, hn::Set(kTag, 1)));
      ISTHMUS_UNROLL for (uint32_t round = 2; round < kPhiloxRounds - 1; ++round) {
        even.round(keys_[2 * round], keys_[2 * round + 1]);
        odd.round(keys_[2 * round], keys_[2 * round + 1]);
      }
      const V even0 = product0(even), even1 = product1(even), odd0 = product0(odd), odd1 = product1(odd);
      const V x0 = hn::Xor3(join(PhiloxLanes::swap(even1), odd1), join(even.x1, PhiloxLanes::swap(odd.x1)), keys_[2 * kPhiloxRounds - 2]);
      const V x2 = hn::Xor3(join(PhiloxLanes::swap(even0), odd0), join(even.x3, PhiloxLanes::swap(odd.x3)), keys_[2 * kPhiloxRounds - 1]);
      hn::Store(hn::BitCast(d32, x0), d32, words + from);
      hn::Store(hn::BitCast(d32, join(even1, PhiloxLanes::swap(odd1))), d32, words + kTileCounters + from);
      hn::Store(hn::BitCast(d32, x2), d32, words + 2 * kTileCounters + from);
      hn::Store(hn::BitCast(d32, join(even0, PhiloxLanes::swap(odd0))), d32, words + 3 * kTileCounters + from);
    }
  }

 private:
  using V = PhiloxLanes::V;
  static constexpr PhiloxLanes::Tag kTag{};
  static HWY_INLINE uint32_t upper(uint64_t v) { return static_cast<uint32_t>(v >> 32); }
  static HWY_INLINE V both_halves(uint32_t v) { return hn::BitCast(kTag, hn::Set(WordTag(), v)); }
  static HWY_INLINE V product0(const PhiloxLanes& x) { return PhiloxLanes::product(x.x0, PhiloxLanes::kFactor0); }
  static HWY_INLINE V product1(const PhiloxLanes& x) { return PhiloxLanes::product(x.x2, PhiloxLanes::kFactor1); }
  /// The lower halves of one, the upper ones of the other.
  static HWY_INLINE V join(V lower, V upper) {
    const WordTag d32;
    return hn::BitCast(kTag, hn::OddEven(hn::BitCast(d32, upper), hn::BitCast(d32, lower)));
  }
  HWY_INLINE PhiloxLanes after_two_rounds(V counters) const {
    const V first = PhiloxLanes::product(counters, PhiloxLanes::kFactor0);
    const V second = PhiloxLanes::product(hn::Xor(PhiloxLanes::swap(first), x2_), PhiloxLanes::kFactor1);
    return {hn::Xor(PhiloxLanes::swap(second), x0_), second, hn::Xor(first, key_), x3_};
  }
  V keys_[2 * kPhiloxRounds];  // of each round: from memory they cost nothing
  V x0_, x2_, x3_, key_;
};

#if HWY_TARGET > HWY_AVX3
/// For each value of as many bits as there are lanes: the sign bits of the lanes whose bits are set. 8 KiB with AVX2.
struct LaneSigns {
  alignas(64) uint32_t of[1U << kLanes][kLanes];

  constexpr LaneSigns() : of() {
    for (uint32_t bits = 0; bits < 1U << kLanes; ++bits) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) of[bits][lane] = bits >> lane << 31;
    }
  }
};
constexpr LaneSigns kLaneSigns;
#endif

/// The signs of a group, made before they are needed.
struct Signs {
  uint32_t offset;
  HWY_ALIGN uint32_t words[(codec::kMaxGroup / kSignTile + 1) * kTileWords];  // groups begin anywhere in a tile

  HWY_INLINE Signs(const CodecKey& key, const ThcPlace& place) : offset(static_cast<uint32_t>(place.position % kSignTile)) {
    const uint32_t counter[3] = {low_counter(key.op), 0, stream_counter(Stream::signs, key.op)};
    const Tiles tiles(key.seed, counter);
    const uint64_t tile = place.position / kSignTile;
    for (uint32_t at = 0; at * kSignTile < offset + place.elements; ++at) tiles.make(words + at * kTileWords, tile + at);
  }
};

/// Negates elements whose sign is set. Handed on by value, so that nothing that is stored can change it.
class Flip {
 public:
  HWY_INLINE explicit Flip(const Signs& signs) : bytes_(reinterpret_cast<const uint8_t*>(signs.words) + signs.offset / 8) {}

  /// The elements from index + offset on, both multiples of kLanes. Two numbers, so that a constant one becomes part of an address.
  HWY_INLINE FloatVector operator()(FloatVector v, size_t index, size_t offset) const {
#if HWY_TARGET <= HWY_AVX3
    return hn::IfThenElse(hn::LoadMaskBits(FloatTag(), bytes_ + index / 8 + offset / 8), hn::Neg(v), v);
#else
    if constexpr (kLanes == 8) {
      return hn::Xor(v, hn::BitCast(FloatTag(), hn::Load(WordTag(), kLaneSigns.of[bytes_[index / 8 + offset / 8]])));
    } else {
      const uint32_t bits = bytes_[(index + offset) / 8] >> (index + offset) % 8 & ((1U << kLanes) - 1);
      return hn::Xor(v, hn::BitCast(FloatTag(), hn::Load(WordTag(), kLaneSigns.of[bits])));
    }
#endif
  }

 private:
  const uint8_t* bytes_;
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

/// How two vectors become their sum and their difference.
struct Plain {
  template <class V>
  static HWY_INLINE void join(V& a, V& b) {
    const V sum = hn::Add(a, b);
    b = hn::Sub(a, b);
    a = sum;
  }
};
struct Saturating {
  template <class V>
  static HWY_INLINE void join(V& a, V& b) {
    const V sum = hn::SaturatedAdd(a, b);
    b = hn::SaturatedSub(a, b);
    a = sum;
  }
};

/// kRadix vectors, floats or integers, among each other, from distance kFrom on.
template <uint32_t kRadix, uint32_t kFrom = 1, class Pairs = Plain, class V>
HWY_INLINE void transform_vectors(V* v) {
  if constexpr (kRadix > kFrom) {
    transform_vectors<kRadix / 2, kFrom, Pairs>(v);
    transform_vectors<kRadix / 2, kFrom, Pairs>(v + kRadix / 2);
    ISTHMUS_UNROLL for (uint32_t i = 0; i < kRadix / 2; ++i) Pairs::join(v[i], v[i + kRadix / 2]);
  }
}

/// Vectors that registers hold beside a few others.
inline constexpr uint32_t kMost = kLanes == 16 ? 16 : 8;

/// The stages up to kMost vectors; in(index, offset) is the element vector at their sum.
template <class In>
HWY_INLINE void first_stages(float* to, uint32_t elements, In in) {
  const FloatTag df;
  for (size_t base = 0; base < elements; base += kMost * kLanes) {
    FloatVector v[kMost];
    ISTHMUS_UNROLL for (uint32_t r = 0; r < kMost; ++r) v[r] = in(base, r * kLanes);
    transform_lanes<kMost>(v);
    transform_vectors<kMost>(v);
    ISTHMUS_UNROLL for (uint32_t r = 0; r < kMost; ++r) hn::Store(v[r], df, to + base + r * kLanes);
  }
}

/// log2(kRadix) stages from distance `half` on; out(vector, index, offset) stores at their sum.
template <uint32_t kRadix, class Pairs = Plain, class T, class Out>
HWY_INLINE void stages(const T* data, size_t elements, size_t half, Out out) {
  const hn::ScalableTag<T> d;
  for (size_t block = 0; block < elements; block += kRadix * half) {
    for (size_t i = block; i < block + half; i += HWY_MAX_BYTES / sizeof(T)) {
      hn::Vec<decltype(d)> v[kRadix];
      ISTHMUS_UNROLL for (uint32_t r = 0; r < kRadix; ++r) v[r] = hn::Load(d, data + i + r * half);
      transform_vectors<kRadix, 1, Pairs>(v);
      ISTHMUS_UNROLL for (uint32_t r = 0; r < kRadix; ++r) out(v[r], i, r * half);
    }
  }
}

/// The stages from distance `half` on; out(vector, index, offset) stores every vector, once, after the last.
template <class Out>
HWY_INLINE void other_stages(float* data, uint32_t elements, uint32_t half, Out out) {
  const FloatTag df;
  const auto keep = [=](FloatVector v, size_t index, size_t offset) HWY_ATTR { hn::Store(v, df, data + index + offset); };
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

/// Calls transform(in), in(index, offset) being a vector of signs o from * factor.
template <class Transform>
HWY_INLINE void with_signs(const float* from, const CodecKey& key, const ThcPlace& place, float factor, const Transform& transform) {
  const FloatTag df;
  const Signs signs(key, place);
  const Flip flip(signs);
  const auto load = [=](size_t index, size_t offset) HWY_ATTR { return hn::LoadU(df, from + index + offset); };
  if (factor == 1) {
    return transform([=](size_t index, size_t offset) HWY_ATTR { return flip(load(index, offset), index, offset); });
  }
  const FloatVector factors = hn::Set(df, factor);
  transform([=](size_t index, size_t offset) HWY_ATTR { return flip(hn::Mul(load(index, offset), factors), index, offset); });
}

inline void rotate(float* to, const float* from, const CodecKey& key, const ThcPlace& place, float factor) {
  if (place.elements < kMost * kLanes) return scalar::rotate(to, from, key, place, factor);
  const DefaultFloatEnvironment environment(true);
  with_signs(from, key, place, factor, [&](const auto& in) HWY_ATTR { first_stages(to, place.elements, in); });
  other_stages(to, place.elements, kMost * kLanes,
               [=](FloatVector v, size_t index, size_t offset) HWY_ATTR { hn::Store(v, FloatTag(), to + index + offset); });
}

/// Calls transform(out), which hands every vector of the transform to out(vector, index, offset), once: times the factor, with its signs,
/// it goes to to[index + offset]. What goes past the caches waits for settle_stores (coding.h).
template <class Transform>
HWY_INLINE void put_results(float* to, const CodecKey& key, const ThcPlace& place, float factor, bool past_caches,
                            const Transform& transform) {
  const FloatTag df;
  const Signs signs(key, place);
  const Flip flip(signs);
  const FloatVector factors = hn::Set(df, factor);
  if (past_caches && reinterpret_cast<uintptr_t>(to) % HWY_MAX_BYTES == 0) {
    return transform([=](FloatVector v, size_t index, size_t offset)
                         HWY_ATTR { hn::Stream(flip(hn::Mul(v, factors), index, offset), df, to + index + offset); });
  }
  transform([=](FloatVector v, size_t index, size_t offset)
                HWY_ATTR { hn::StoreU(flip(hn::Mul(v, factors), index, offset), df, to + index + offset); });
}

/// The whole transform, `data` being its scratch, with put_results.
HWY_INLINE void transform_results(float* to, float* data, const CodecKey& key, const ThcPlace& place, float factor, bool past_caches) {
  const FloatTag df;
  first_stages(data, place.elements, [=](size_t index, size_t offset) HWY_ATTR { return hn::Load(df, data + index + offset); });
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
  ISTHMUS_UNROLL for (uint32_t half = kSums / 2; half > 0; half /= 2) {
    ISTHMUS_UNROLL for (uint32_t k = 0; k < half; ++k) sum[k] = hn::Add(sum[k], sum[k + half]);
  }
  HWY_ALIGN float sums[kLanes];
  hn::Store(sum[0], df, sums);
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
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
