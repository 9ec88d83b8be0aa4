// SPDX-License-Identifier: Apache-2.0
// The vector kernels of the codecs that rotate nothing. Included by simd_reduce.h, inside objects compiled for one instruction set (see
// there for what that forbids). Results equal baseline_arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include <cstring>

#include "kernels/baseline_layout.h"
#include "kernels/simd_thc_rotate.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

inline constexpr uint32_t kBlock = codec::kBlockElements;
inline constexpr uint32_t kScaleBatch = 16;  ///< blocks

/// Vectors of blocks: a byte plane has 8 words, so wider ones would hold elements of two.
using BlockFloatTag = hn::CappedTag<float, 8>;
using BlockWordTag = hn::RebindToUnsigned<BlockFloatTag>;
using BlockFloats = hn::Vec<BlockFloatTag>;
using BlockWords = hn::Vec<BlockWordTag>;
using HalfWordTag = hn::CappedTag<uint32_t, 4>;
inline constexpr uint32_t kBlockLanes = kLanes < 8 ? kLanes : 8;
inline constexpr uint32_t kBlockParts = 8 / kBlockLanes;  ///< vectors of a byte plane

/// Whether results go past the caches, and how vectors are stored then.
class Way {
 public:
  HWY_INLINE Way(const float* to, bool past_caches) : past_(past_caches && reinterpret_cast<uintptr_t>(to) % HWY_MAX_BYTES == 0) {}
  template <class D>
  HWY_INLINE void store(hn::Vec<D> v, D d, float* to) const {
    if (past_) return hn::Stream(v, d, to);
    hn::StoreU(v, d, to);
  }

 private:
  bool past_;
};

// --- bf16 ----------------------------------------------------------------------------------------------------------------------

/// Magnitudes up to here stay finite whatever is added to them, and compare alike as signed integers, which every instruction set can.
inline constexpr int32_t kOrdinaryBits = 0x7f7f0000;

/// Any values, as bfloat16 in the lower halves.
HWY_INLINE WordVector round_at_random(WordVector bits, WordVector random) {
  const WordTag d;
  const hn::RebindToSigned<WordTag> di;
  const WordVector magnitude = hn::And(bits, hn::Set(d, kMagnitudeBits));
  const auto ordered = hn::BitCast(di, magnitude), infinity = hn::Set(di, static_cast<int32_t>(kInfinityBits));
  const WordVector sum = hn::Add(magnitude, random);
  const auto finite = hn::RebindMask(d, hn::Lt(ordered, infinity));
  const WordVector upper = hn::ShiftRight<16>(hn::IfThenElse(finite, hn::Min(sum, hn::Set(d, kLargestBits)), sum));
  const WordVector sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, BFloat16::kSign));
  const auto is_nan = hn::RebindMask(d, hn::Gt(ordered, infinity));
  return hn::IfThenElse(is_nan, hn::Set(d, BFloat16::kNan), hn::Or(upper, sign));
}

/// True if all magnitudes are at most kOrdinaryBits.
HWY_INLINE bool are_ordinary(const float* from, uint32_t elements) {
  const WordTag d;
  const hn::RebindToSigned<WordTag> di;
  WordVector largest = hn::Zero(d);
  for (uint32_t i = 0; i < elements; i += kLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(d, hn::LoadU(FloatTag(), from + i)), hn::Set(d, kMagnitudeBits)));
  }
  return hn::AllFalse(di, hn::Gt(hn::BitCast(di, largest), hn::Set(di, kOrdinaryBits)));
}

/// Elements that share the lower or upper halves of `words`. round(bits, random) has the result in the upper half of each lane.
template <bool kUpper, class Round>
HWY_INLINE void encode_bf16_run(uint16_t* dst, const float* from, const uint32_t* words, uint32_t elements, const Round& round) {
  const FloatTag df;
  const WordTag d;
  const hn::Repartition<uint16_t, WordTag> d16;
  const auto result = [&](uint32_t i) HWY_ATTR {
    const WordVector word = hn::Load(d, words + i);
    const WordVector random = kUpper ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(d, 0xffff));
    return hn::BitCast(d16, round(hn::BitCast(d, hn::LoadU(df, from + i)), random));
  };
  for (uint32_t i = 0; i < elements; i += 2 * kLanes) {
    const auto rounded = hn::ConcatOdd(d16, result(i + kLanes), result(i));
    const auto minus_zero = hn::Eq(rounded, hn::Set(d16, static_cast<uint16_t>(BFloat16::kSign)));
    hn::StoreU(hn::IfThenZeroElse(minus_zero, rounded), d16, dst + i);
  }
}

template <bool kUpper>
HWY_INLINE void encode_bf16_run(uint16_t* dst, const float* from, const uint32_t* words, uint32_t elements) {
  if (are_ordinary(from, elements)) {
    encode_bf16_run<kUpper>(dst, from, words, elements, [](WordVector bits, WordVector random) HWY_ATTR { return hn::Add(bits, random); });
  } else {
    encode_bf16_run<kUpper>(dst, from, words, elements,
                            [](WordVector bits, WordVector random) HWY_ATTR { return hn::ShiftLeft<16>(round_at_random(bits, random)); });
  }
}

inline void encode_bf16(uint8_t* dst, const float* from, uint32_t elements, const CodecKey& key, uint64_t position) {
  const uint32_t counter[3] = {low_counter(key.op), key.rank, stream_counter(Stream::rounding, key.op)};
  const Tiles tiles(key.seed, counter);
  auto* to = reinterpret_cast<uint16_t*>(dst);
  HWY_ALIGN uint32_t words[kTileWords];
  for (uint32_t i = 0, run = 0; i < elements; i += run) {
    const auto at = static_cast<uint32_t>((position + i) % kRoundingTile), place = at % kTileWords;
    if (i == 0 || at == 0) tiles.make(words, (position + i) / kRoundingTile);
    run = elements - i < kTileWords - place ? elements - i : kTileWords - place;
    if (at < kTileWords) {
      encode_bf16_run<false>(to + i, from + i, words + place, run);
    } else {
      encode_bf16_run<true>(to + i, from + i, words + place, run);
    }
  }
}

inline void decode_bf16(float* to, const uint8_t* src, uint32_t elements, bool past_caches) {
  const FloatTag df;
  const WordTag d;
  const hn::Rebind<uint16_t, FloatTag> d16;
  const auto* from = reinterpret_cast<const uint16_t*>(src);
  const Way way(to, past_caches);
  for (uint32_t i = 0; i < elements; i += kLanes) {
    way.store(hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(d16, from + i)))), df, to + i);
  }
}

// --- blocks with a scale ---------------------------------------------------------------------------------------------------------

template <class D>
HWY_INLINE uint32_t largest_lane(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> dh;
    return largest_lane(dh, hn::Max(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  } else {
    return hn::GetLane(hn::MaxOfLanes(d, v));
  }
}

/// The bits of a block's largest magnitude.
HWY_INLINE uint32_t largest_magnitude(const float* from) {
  const BlockFloatTag df;
  const BlockWordTag d;
  const BlockWords mask = hn::Set(d, kMagnitudeBits);
  BlockWords largest = hn::Zero(d);
  for (uint32_t i = 0; i < kBlock; i += kBlockLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(d, hn::LoadU(df, from + i)), mask));
  }
  return largest_lane(d, largest);
}

/// A vector of words of four codes each, from the floats 8 elements apart from `from` on.
template <uint32_t kBits>
HWY_INLINE BlockWords coded_words(const float* from, BlockFloats inverse) {
  const BlockFloatTag df;
  const BlockWordTag d;
  const BlockWords mask = hn::Set(d, (1U << kBits) - 1);
  const auto code = [&](uint32_t plane) HWY_ATTR {
    const BlockFloats scaled = hn::Mul(hn::LoadU(df, from + 8 * plane), inverse);
    return hn::And(hn::BitCast(d, hn::Add(scaled, hn::Set(df, kCodeLever))), mask);
  };
  const BlockWords low = hn::Or(code(0), hn::ShiftLeft<8>(code(1)));
  return hn::Or(low, hn::Or(hn::ShiftLeft<16>(code(2)), hn::ShiftLeft<24>(code(3))));
}

template <uint32_t kBits>
HWY_INLINE void write_codes(uint8_t* dst, const float* from, float inverse) {
  const BlockWordTag d;
  const BlockFloats factor = hn::Set(BlockFloatTag(), inverse);
  HWY_ALIGN uint32_t words[8];
  for (uint32_t i = 0; i < 8; i += kBlockLanes) hn::Store(coded_words<kBits>(from + i, factor), d, words + i);
  auto* codes = reinterpret_cast<uint32_t*>(dst);
  if constexpr (kBits == 8) {
    for (uint32_t i = 0; i < 8; i += kBlockLanes) hn::StoreU(hn::Load(d, words + i), d, codes + i);
  } else {
    const HalfWordTag dh;
    hn::StoreU(hn::Or(hn::Load(dh, words), hn::ShiftLeft<4>(hn::Load(dh, words + 4))), dh, codes);
  }
}

/// First the scales of several blocks, then their codes: each scale takes long, and processors work ahead by less than two blocks.
template <uint32_t kBits>
HWY_INLINE void encode_batch(uint8_t* dst, const float* from, uint32_t blocks) {
  constexpr uint32_t kStride = codec::block_stride(kBits);
  float inverses[kScaleBatch];
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t largest = largest_magnitude(from + i * kBlock);
    const auto scale = static_cast<uint16_t>(block_scale(largest, kBits));
    std::memcpy(dst + i * kStride, &scale, sizeof scale);
    inverses[i] = largest == 0 || largest >= kInfinityBits ? 0 : 1 / scale_factor(scale);
  }
  for (uint32_t i = 0; i < blocks; ++i) {
    uint8_t* codes = dst + i * kStride + codec::kScaleBytes;
    if (HWY_UNLIKELY(inverses[i] == 0)) {
      std::memset(codes, 0, kStride - codec::kScaleBytes);
    } else {
      write_codes<kBits>(codes, from + i * kBlock, inverses[i]);
    }
  }
}

/// Words whose bytes have a code in their highest bits, and noise below.
template <uint32_t kBits, class D>
HWY_INLINE void read_words(D d, hn::Vec<D>* words, const uint8_t* src) {
  const auto* codes = reinterpret_cast<const uint32_t*>(src);
  if constexpr (kBits == 8) {
    for (uint32_t part = 0; part < kBlockParts; ++part) words[part] = hn::LoadU(d, codes + part * kBlockLanes);
  } else {
    const auto both = hn::LoadU(HalfWordTag(), codes);
    if constexpr (kBlockParts == 1) {
      words[0] = hn::Combine(d, both, hn::ShiftLeft<4>(both));
    } else {
      words[0] = hn::ShiftLeft<4>(both);
      words[1] = both;
    }
  }
}

template <uint32_t kBits>
HWY_INLINE void decode_block(float* to, const uint8_t* src, const Way& way) {
  const BlockFloatTag df;
  const hn::RebindToSigned<BlockFloatTag> di;
  uint16_t scale;
  std::memcpy(&scale, src, sizeof scale);
  const BlockFloats factor = hn::Set(df, scale_factor(scale));
  BlockWords words[kBlockParts];
  read_words<kBits>(BlockWordTag(), words, src + codec::kScaleBytes);
  for (int plane = 0; plane < 4; ++plane) {
    for (uint32_t part = 0; part < kBlockParts; ++part) {
      const auto top = hn::BitCast(di, hn::ShiftLeftSame(words[part], 24 - 8 * plane));
      const BlockFloats value = hn::Mul(hn::ConvertTo(df, hn::ShiftRight<32 - kBits>(top)), factor);
      way.store(value, df, to + 8 * plane + part * kBlockLanes);
    }
  }
}

inline void encode_blocks(uint8_t* dst, const float* from, uint32_t elements, uint32_t bits) {
  const DefaultFloatEnvironment environment(true);
  for (uint32_t i = 0; i < elements; i += kScaleBatch * kBlock, dst += kScaleBatch * codec::block_stride(bits)) {
    const uint32_t left = (elements - i) / kBlock, blocks = left < kScaleBatch ? left : kScaleBatch;
    if (bits == 8) {
      encode_batch<8>(dst, from + i, blocks);
    } else {
      encode_batch<4>(dst, from + i, blocks);
    }
  }
}

inline void decode_blocks(float* to, const uint8_t* src, uint32_t elements, uint32_t bits, bool past_caches) {
  const DefaultFloatEnvironment environment(true);
  const Way way(to, past_caches);
  if (bits == 8) {
    for (uint32_t i = 0; i < elements; i += kBlock, src += codec::block_stride(8)) decode_block<8>(to + i, src, way);
  } else {
    for (uint32_t i = 0; i < elements; i += kBlock, src += codec::block_stride(4)) decode_block<4>(to + i, src, way);
  }
}

inline constexpr BaselineKernels kBaseline = {
    .encode_bf16 = encode_bf16, .decode_bf16 = decode_bf16, .encode_blocks = encode_blocks, .decode_blocks = decode_blocks};

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
