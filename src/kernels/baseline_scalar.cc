// SPDX-License-Identifier: Apache-2.0
// The scalar kernels of the codecs that rotate nothing: plain loops over baseline_arithmetic.h that define every result. Called through
// the scalar table. Nothing can fail.
#include <cstring>

#include "kernels/baseline_arithmetic.h"
#include "kernels/float_environment.h"
#include "kernels/targets.h"
#include "kernels/thc_arithmetic.h"

namespace isthmus::kernels::scalar {
namespace {

constexpr uint32_t kBlock = codec::kBlockElements;

void write_half(uint8_t* dst, uint32_t bits) {
  const auto half = static_cast<uint16_t>(bits);
  std::memcpy(dst, &half, sizeof half);
}

uint32_t read_half(const uint8_t* src) {
  uint16_t half;
  std::memcpy(&half, src, sizeof half);
  return half;
}

/// Where a code of `bits` bits is among a block's bytes, and in which of their bits.
struct CodePlace {
  uint32_t byte, shift;

  CodePlace(uint32_t place, uint32_t bits) : byte(bits == 8 ? place : place % 16), shift(bits == 8 ? 0 : place / 16 * 4) {}
};

void encode_block(uint8_t* dst, const float* from, uint32_t bits) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kBlock; ++i) {
    const uint32_t magnitude = __builtin_bit_cast(uint32_t, from[i]) & kMagnitudeBits;
    if (magnitude > largest) largest = magnitude;
  }
  const uint32_t scale = block_scale(largest, bits);
  std::memset(dst, 0, codec::block_stride(bits));
  write_half(dst, scale);
  if (largest == 0 || largest >= kInfinityBits) return;
  const float inverse = 1 / scale_factor(scale);
  for (uint32_t place = 0; place < kBlock; ++place) {
    const uint32_t code = block_code(from[codec::coded_element(place)], inverse) & ((1U << bits) - 1);
    const CodePlace at(place, bits);
    uint8_t& byte = dst[codec::kScaleBytes + at.byte];
    byte = static_cast<uint8_t>(byte | code << at.shift);
  }
}

void decode_block(float* to, const uint8_t* src, uint32_t bits) {
  const float factor = scale_factor(read_half(src));
  const auto half = static_cast<int32_t>(1U << (bits - 1));
  for (uint32_t place = 0; place < kBlock; ++place) {
    const CodePlace at(place, bits);
    const auto code = static_cast<int32_t>(src[codec::kScaleBytes + at.byte] >> at.shift & ((1U << bits) - 1));
    to[codec::coded_element(place)] = static_cast<float>((code ^ half) - half) * factor;
  }
}

}  // namespace

void encode_bf16(uint8_t* dst, const float* from, uint32_t elements, const CodecKey& key, uint64_t position) {
  const uint32_t counter[3] = {low_counter(key.op), key.rank, stream_counter(Stream::rounding, key.op)};
  uint32_t words[kTileWords];
  for (uint32_t i = 0; i < elements; ++i) {
    const uint64_t at = position + i;
    if (i == 0 || at % kRoundingTile == 0) philox_tile(words, key.seed, at / kRoundingTile, counter);
    write_half(dst + size_t{2} * i, round_at_random(from[i], rounding_bits(words[rounding_word(at)], at)));
  }
}

void decode_bf16(float* to, const uint8_t* src, uint32_t elements, bool /*past_caches*/) {
  for (uint32_t i = 0; i < elements; ++i) to[i] = __builtin_bit_cast(float, read_half(src + size_t{2} * i) << 16);
}

void encode_blocks(uint8_t* dst, const float* from, uint32_t elements, uint32_t bits) {
  const DefaultFloatEnvironment environment(true);
  for (uint32_t i = 0; i < elements; i += kBlock, dst += codec::block_stride(bits)) encode_block(dst, from + i, bits);
}

void decode_blocks(float* to, const uint8_t* src, uint32_t elements, uint32_t bits, bool /*past_caches*/) {
  const DefaultFloatEnvironment environment(true);
  for (uint32_t i = 0; i < elements; i += kBlock, src += codec::block_stride(bits)) decode_block(to + i, src, bits);
}

}  // namespace isthmus::kernels::scalar
