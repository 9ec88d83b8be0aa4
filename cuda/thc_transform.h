// SPDX-License-Identifier: Apache-2.0
// The Hadamard transform of a group in shared memory, and its random signs: kernels/thc_arithmetic.h's butterflies, as many at a time
// as registers hold. Every butterfly is the one of the definition, so the results are its bits. Used by thc_device.h. Nothing can fail.
#pragma once

#include <cstdint>

#include "cuda/block.h"
#include "kernels/thc.h"
#include "kernels/thc_arithmetic.h"

namespace isthmus::cuda {

inline constexpr uint32_t kFirstRadix = 32;  ///< neighbours that the first stages join
inline constexpr uint32_t kMostSignTiles = codec::kMaxGroup / kernels::kSignTile + 1;

/// Where element i of a group lies in shared memory: 32 neighbours, and elements 32 apart, are in 32 different banks.
ISTHMUS_HOST_DEVICE constexpr uint32_t padded(uint32_t i) { return i + i / 32; }

/// log2(kRadix) stages among kRadix values, neighbours first.
template <uint32_t kRadix>
ISTHMUS_DEVICE void butterflies(float* v) {
  ISTHMUS_UNROLL(5)
  for (uint32_t half = 1; half < kRadix; half *= 2) {
    ISTHMUS_UNROLL(32)
    for (uint32_t i = 0; i < kRadix; ++i) {
      if ((i & half) != 0) continue;
      const float a = v[i], b = v[i + half];
      v[i] = a + b;
      v[i + half] = a - b;
    }
  }
}

/// log2(kRadix) stages from distance `half` (at least 32) on; out(value, i) takes every element.
template <uint32_t kRadix, class Block, class Out>
ISTHMUS_DEVICE void stages(const Block& block, const float* data, uint32_t elements, uint32_t half, const Out& out) {
  block.each([&](uint32_t thread) {
    const uint32_t step = padded(half);
    for (uint32_t item = thread; item < elements / kRadix; item += block.threads) {
      const uint32_t within = item & (half - 1), first = (item - within) * kRadix + within;
      float v[kRadix];
      ISTHMUS_UNROLL(16)
      for (uint32_t r = 0; r < kRadix; ++r) v[r] = data[padded(first) + r * step];
      butterflies<kRadix>(v);
      ISTHMUS_UNROLL(16)
      for (uint32_t r = 0; r < kRadix; ++r) out(v[r], first + r * half);
    }
  });
}

/// The unnormalised transform of `elements` (64 to 8192). in(v, i) gives elements i to i + 31, out(value, i) takes each result; `data`
/// is room for padded(elements) floats, which `in` may read and `out` may write at the elements that they are asked about.
template <class Block, class In, class Out>
ISTHMUS_DEVICE void transform(const Block& block, float* data, uint32_t elements, const In& in, const Out& out) {
  block.each([&](uint32_t thread) {
    for (uint32_t first = thread * kFirstRadix; first < elements; first += block.threads * kFirstRadix) {
      float v[kFirstRadix];
      in(v, first);
      butterflies<kFirstRadix>(v);
      ISTHMUS_UNROLL(32)
      for (uint32_t r = 0; r < kFirstRadix; ++r) data[padded(first) + r] = v[r];
    }
  });
  uint32_t half = kFirstRadix;
  for (; elements / half > 16; half *= 16) {
    stages<16>(block, data, elements, half, [&](float value, uint32_t i) { data[padded(i)] = value; });
  }
  switch (elements / half) {
    case 16:
      return stages<16>(block, data, elements, half, out);
    case 8:
      return stages<8>(block, data, elements, half, out);
    case 4:
      return stages<4>(block, data, elements, half, out);
    default:
      return stages<2>(block, data, elements, half, out);
  }
}

/// The sign words of all tiles that a group touches.
struct ThcSigns {
  uint32_t words[kMostSignTiles * kernels::kTileWords];

  /// This thread's part of making them.
  ISTHMUS_DEVICE void make(uint32_t thread, uint32_t threads, const kernels::CodecKey& key, const kernels::ThcPlace& place) {
    const uint32_t counter[3] = {kernels::low_counter(key.op), 0, kernels::stream_counter(kernels::Stream::signs, key.op)};
    const uint64_t tile = place.position / kernels::kSignTile;
    const auto tiles = static_cast<uint32_t>((place.position + place.elements - 1) / kernels::kSignTile - tile + 1);
    for (uint32_t item = thread; item < tiles * kernels::kTileCounters; item += threads) {
      const uint32_t at = item / kernels::kTileCounters, j = item % kernels::kTileCounters;
      const kernels::PhiloxBlock block = kernels::tile_block(key.seed, tile + at, j, counter);
      ISTHMUS_UNROLL(4)
      for (uint32_t k = 0; k < 4; ++k) words[at * kernels::kTileWords + k * kernels::kTileCounters + j] = block.word[k];
    }
  }
  /// The word of the group's elements i, i + 1, ... until a multiple of 32.
  [[nodiscard]] ISTHMUS_DEVICE uint32_t word(const kernels::ThcPlace& place, uint32_t i) const {
    return words[static_cast<uint32_t>(place.position % kernels::kSignTile + i) / 32];
  }
};

}  // namespace isthmus::cuda
