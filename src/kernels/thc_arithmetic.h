// SPDX-License-Identifier: Apache-2.0
// The meaning of the homomorphic codec, one element or one unit at a time: the definition that the scalar target loops over, that
// device kernels share, and that every SIMD target matches bit for bit. No containers, no library calls. Nothing here can fail.
// Must not be included by the objects that are compiled for one instruction set: these are ordinary inline functions.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "kernels/thc_layout.h"

#if defined(__CUDACC__)
#define R123_CUDA_DEVICE ISTHMUS_HOST_DEVICE  // Random123 would leave out the host's half
#endif
#include <Random123/philox.h>

namespace isthmus::kernels {

/// One block of Philox 4x32 with kPhiloxRounds.
struct PhiloxBlock {
  uint32_t word[4];
};

ISTHMUS_HOST_DEVICE inline PhiloxBlock philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  using Generator = r123::Philox4x32_R<kPhiloxRounds>;
  const Generator::ctr_type counter = {{c0, c1, c2, c3}};
  const Generator::key_type key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const auto block = Generator()(counter, key);
  return {{block[0], block[1], block[2], block[3]}};
}

/// Words j, 16 + j, 32 + j and 48 + j of a tile; `counter` holds the upper three words.
ISTHMUS_HOST_DEVICE inline PhiloxBlock tile_block(uint64_t seed, uint64_t tile, uint32_t j, const uint32_t* counter) {
  return philox(seed, static_cast<uint32_t>(tile * kTileCounters + j), counter[0], counter[1], counter[2]);
}

/// All random words of one tile.
ISTHMUS_HOST_DEVICE inline void philox_tile(uint32_t* words, uint64_t seed, uint64_t tile, const uint32_t* counter) {
  for (uint32_t j = 0; j < kTileCounters; ++j) {
    const PhiloxBlock block = tile_block(seed, tile, j, counter);
    for (uint32_t k = 0; k < 4; ++k) words[kTileCounters * k + j] = block.word[k];
  }
}

/// The word of its tile that has the signs of the elements around a position.
ISTHMUS_HOST_DEVICE constexpr uint32_t sign_word(uint64_t position) { return static_cast<uint32_t>(position % kSignTile / 32); }

/// The element at `position`, negated where its bit of its sign word says so.
ISTHMUS_HOST_DEVICE inline float flip(float value, uint32_t word, uint64_t position) {
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, value) ^ (word >> (position % 32)) << 31);
}

/// The word of its tile that has the dither of a unit's storage places 4 i to 4 i + 3.
ISTHMUS_HOST_DEVICE constexpr uint32_t dither_word(uint64_t unit_position, uint32_t i) {
  return static_cast<uint32_t>(unit_position % kDitherTile / 4) + i;
}

ISTHMUS_HOST_DEVICE constexpr uint32_t dither_of(uint32_t word, uint32_t place, uint32_t stratum) {
  return ((word >> (place % 4 * 8)) + stratum) & 0xff;
}

/// As 16-bit integers saturate, and are negated: the least one stays.
ISTHMUS_HOST_DEVICE inline float saturated(float value) {
  const float above = value > -32768.0F ? value : -32768.0F;
  return above < 32767.0F ? above : 32767.0F;
}
ISTHMUS_HOST_DEVICE inline float negated(float value) { return value > -32768.0F ? -value : value; }

/// Fixed point of 16 bits, to nearest even.
ISTHMUS_HOST_DEVICE inline float fixed_point(float y, float factor) {
  const float scaled = y * factor;
  const float lever = 12582912.0F;  // 1.5 * 2^23: its unit is one, so the sum is rounded there
  const float sum = saturated(scaled) + lever;
  return sum - lever;
}

/// A coordinate in 256ths of a table unit, 0 to 2 middle, from fixed point that has `shift` more bits (fewer if negative): then halves are
/// rounded up.
ISTHMUS_HOST_DEVICE inline uint32_t coordinate(float fixed, int32_t shift, uint32_t middle) {
  const uint32_t more = shift > 0 ? static_cast<uint32_t>(shift) : 0, fewer = shift < 0 ? static_cast<uint32_t>(-shift) : 0;
  const auto v = static_cast<int32_t>(fixed), bound = static_cast<int32_t>(middle << more >> fewer);
  const int32_t clamped = v < -bound ? -bound : v > bound ? bound : v;
  return (static_cast<uint32_t>(clamped * (1 << fewer)) + (middle << more) + (1U << more >> 1)) >> more;
}

/// The last of `levels` (a power of two) table values that is at most u / 256.
ISTHMUS_HOST_DEVICE inline uint32_t level_below(uint32_t u, const uint8_t* table, uint32_t levels) {
  uint32_t k = 0;
  for (uint32_t step = levels / 2; step > 0; step /= 2) {
    if (u >= uint32_t{table[k + step]} * 256) k += step;
  }
  return k;
}

/// Whether u, `rest` above one table value and `gap` table units below the next, becomes that one: with the probability that makes
/// the mean right.
ISTHMUS_HOST_DEVICE constexpr bool rounds_up(uint32_t rest, uint32_t gap, uint32_t dither) { return dither * gap + gap / 2 < rest; }

/// The index of one of the two table values around u / 256.
ISTHMUS_HOST_DEVICE inline uint32_t quantise_one(uint32_t u, uint32_t dither, const uint8_t* table, const uint8_t* gap, uint32_t levels) {
  const uint32_t k = level_below(u, table, levels);
  return k + (rounds_up(u - uint32_t{table[k]} * 256, gap[k], dither) ? 1 : 0);
}

/// What a sum says of a rotated coordinate; `middle` is the number of summands times the granularity.
ISTHMUS_HOST_DEVICE constexpr float level_of(uint32_t sum, uint32_t middle) {
  return static_cast<float>(2 * static_cast<int32_t>(sum) - static_cast<int32_t>(middle));
}

/// Packs 64 values in storage order into 8 * width bytes, plane by plane.
ISTHMUS_HOST_DEVICE inline void pack_unit(uint8_t* dst, const uint16_t* values, uint32_t width) {
  for (uint32_t shift = 0; shift < width;) {
    const uint32_t bits = plane_bits(width - shift);
    const uint32_t mask = (1U << bits) - 1;
    for (uint32_t j = 0; j < 8 * bits; ++j) {
      uint32_t byte = 0;
      for (uint32_t field = 0; field < 8 / bits; ++field) byte |= (values[8 * bits * field + j] >> shift & mask) << (bits * field);
      *dst++ = static_cast<uint8_t>(byte);
    }
    shift += bits;
  }
}

ISTHMUS_HOST_DEVICE inline void unpack_unit(uint16_t* values, const uint8_t* src, uint32_t width) {
  for (uint32_t i = 0; i < 64; ++i) values[i] = 0;
  for (uint32_t shift = 0; shift < width;) {
    const uint32_t bits = plane_bits(width - shift);
    const uint32_t mask = (1U << bits) - 1;
    for (uint32_t j = 0; j < 8 * bits; ++j) {
      const uint32_t byte = *src++;
      for (uint32_t field = 0; field < 8 / bits; ++field) {
        uint16_t& value = values[8 * bits * field + j];
        value = static_cast<uint16_t>(value | (byte >> (bits * field) & mask) << shift);
      }
    }
    shift += bits;
  }
}

/// One stage of the unnormalised Hadamard transform: join(a, b) for elements `half` apart.
template <class Join>
ISTHMUS_HOST_DEVICE void hadamard_stage(float* data, uint32_t elements, uint32_t half, const Join& join) {
  for (uint32_t block = 0; block < elements; block += 2 * half) {
    for (uint32_t i = block; i < block + half; ++i) join(data[i], data[i + half]);
  }
}

ISTHMUS_HOST_DEVICE inline void join(float& a, float& b) {
  const float sum = a + b, difference = a - b;
  a = sum;
  b = difference;
}

ISTHMUS_HOST_DEVICE inline void join_saturated(float& a, float& b) {
  const float sum = saturated(a + b), difference = saturated(a - b);
  a = sum;
  b = difference;
}

/// The same for neighbours, which vectors add to their negated partners.
ISTHMUS_HOST_DEVICE inline void join_neighbours(float& a, float& b) {
  const float sum = saturated(a + b), difference = saturated(a + negated(b));
  a = sum;
  b = difference;
}

/// The transform in place, from neighbours to halves.
ISTHMUS_HOST_DEVICE inline void hadamard(float* data, uint32_t elements) {
  for (uint32_t half = 1; half < elements; half *= 2) hadamard_stage(data, elements, half, join);
}

/// The same for encoders: the stages at distances 8, 16 and 32 as they are, then times `factor` in fixed point, where sums that leave the
/// range stay at its end.
ISTHMUS_HOST_DEVICE inline void hadamard_to_fixed_point(float* data, uint32_t elements, float factor) {
  for (uint32_t half = 8; half < 64; half *= 2) hadamard_stage(data, elements, half, join);
  for (uint32_t i = 0; i < elements; ++i) data[i] = fixed_point(data[i], factor);
  for (uint32_t half = 1; half < 8; half *= 2) hadamard_stage(data, elements, half, join_neighbours);
  for (uint32_t half = 64; half < elements; half *= 2) hadamard_stage(data, elements, half, join_saturated);
}

/// The sum of squares: 64 sums of every 64th element, then halves onto halves.
ISTHMUS_HOST_DEVICE inline float sum_of_squares(const float* data, uint32_t elements) {
  float sums[64] = {};
  for (uint32_t i = 0; i < elements; ++i) {
    const float square = data[i] * data[i];
    sums[i % 64] = sums[i % 64] + square;
  }
  for (uint32_t half = 32; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  return sums[0];
}

}  // namespace isthmus::kernels
