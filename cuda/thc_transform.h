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

/// How two elements become their sum and their difference: as floats, or in the encoders' fixed point.
struct Floats {
  ISTHMUS_DEVICE void operator()(float& a, float& b) const { kernels::join(a, b); }
};
struct FixedPoint {
  ISTHMUS_DEVICE void operator()(float& a, float& b) const { kernels::join_saturated(a, b); }
};
struct FixedPointNeighbours {
  ISTHMUS_DEVICE void operator()(float& a, float& b) const { kernels::join_neighbours(a, b); }
};

/// log2(kRadix) stages among kRadix values, neighbours first.
template <uint32_t kRadix, class Join>
ISTHMUS_DEVICE void butterflies(float* v, const Join& join) {
  ISTHMUS_UNROLL(5)
  for (uint32_t half = 1; half < kRadix; half *= 2) {
    ISTHMUS_UNROLL(32)
    for (uint32_t i = 0; i < kRadix; ++i) {
      if ((i & half) == 0) join(v[i], v[i + half]);
    }
  }
}

/// log2(kRadix) stages from distance `half` on, at least 32 or with kRadix half at most that; out(value, i) takes every element.
template <uint32_t kRadix, class Join, class Block, class Out>
ISTHMUS_DEVICE void stages(const Block& block, const float* data, uint32_t elements, uint32_t half, const Out& out) {
  block.each([&](uint32_t thread) {
    const uint32_t step = padded(half);
    for (uint32_t item = thread; item < elements / kRadix; item += block.threads) {
      const uint32_t within = item & (half - 1), first = (item - within) * kRadix + within;
      float v[kRadix];
      ISTHMUS_UNROLL(16)
      for (uint32_t r = 0; r < kRadix; ++r) v[r] = data[padded(first) + r * step];
      butterflies<kRadix>(v, Join());
      ISTHMUS_UNROLL(16)
      for (uint32_t r = 0; r < kRadix; ++r) out(v[r], first + r * half);
    }
  });
}

/// The stages from distance `half` (at least 32) on, of `elements` (64 to 8192) in `data`; out(value, i) takes each result, and may write
/// data where it is asked about.
template <class Join, class Block, class Out>
ISTHMUS_DEVICE void other_stages(const Block& block, float* data, uint32_t elements, uint32_t half, const Out& out) {
  for (; elements / half > 16; half *= 16) {
    stages<16, Join>(block, data, elements, half, [&](float value, uint32_t i) { data[padded(i)] = value; });
  }
  switch (elements / half) {
    case 16:
      return stages<16, Join>(block, data, elements, half, out);
    case 8:
      return stages<8, Join>(block, data, elements, half, out);
    case 4:
      return stages<4, Join>(block, data, elements, half, out);
    case 2:
      return stages<2, Join>(block, data, elements, half, out);
    default:
      return;  // nothing is left to be joined
  }
}

/// The unnormalised transform. in(v, i) gives elements i to i + 31; `data` is room for padded(elements) floats, which `in` may read at the
/// elements that it is asked about.
template <class Block, class In, class Out>
ISTHMUS_DEVICE void transform(const Block& block, float* data, uint32_t elements, const In& in, const Out& out) {
  block.each([&](uint32_t thread) {
    for (uint32_t first = thread * kFirstRadix; first < elements; first += block.threads * kFirstRadix) {
      float v[kFirstRadix];
      in(v, first);
      butterflies<kFirstRadix>(v, Floats());
      ISTHMUS_UNROLL(32)
      for (uint32_t r = 0; r < kFirstRadix; ++r) data[padded(first) + r] = v[r];
    }
  });
  other_stages<Floats>(block, data, elements, kFirstRadix, out);
}

/// hadamard_to_fixed_point of the elements in `data`, of which in(value, i) makes what is transformed. A unit of 64 is eight threads' work:
/// first elements 8 apart, then neighbours.
template <class Block, class In>
ISTHMUS_DEVICE void transform_to_fixed_point(const Block& block, float* data, uint32_t elements, float factor, const In& in) {
  block.each([&](uint32_t thread) {
    for (uint32_t item = thread; item < elements / 8; item += block.threads) {
      const uint32_t first = item / 8 * 64 + item % 8;
      float v[8];
      ISTHMUS_UNROLL(8)
      for (uint32_t r = 0; r < 8; ++r) v[r] = in(data[padded(first + 8 * r)], first + 8 * r);
      butterflies<8>(v, Floats());
      ISTHMUS_UNROLL(8)
      for (uint32_t r = 0; r < 8; ++r) data[padded(first + 8 * r)] = kernels::fixed_point(v[r], factor);
    }
  });
  const auto keep = [&](float value, uint32_t i) { data[padded(i)] = value; };
  stages<8, FixedPointNeighbours>(block, data, elements, 1, keep);
  other_stages<FixedPoint>(block, data, elements, codec::kUnitElements, keep);
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
