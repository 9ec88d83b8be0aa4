// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's device code for one group and one thread block: measure, encode (with error feedback), decode. The
// arithmetic is that of kernels/thc_arithmetic.h and kernels/thc_group.h; here is which thread does what when. Instantiated by
// thc_kernels.cu, and by tests that run it on the CPU and compare with the scalar kernels bit for bit. Nothing can fail.
#pragma once

#include <cstdint>

#include "cuda/block.h"
#include "cuda/thc_tasks.h"
#include "cuda/thc_transform.h"
#include "cuda/thc_words.h"

namespace isthmus::cuda {

inline constexpr uint32_t kSums = 64;           ///< sums of squares that go on side by side
inline constexpr uint32_t kStrataThreads = 32;  ///< threads that look for this rank's stratum

/// What a block's threads share beside the group's elements.
struct ThcShared {
  ThcSigns signs;
  uint32_t steps[256];
  uint8_t table[256];
  float sums[kSums];
  uint32_t largest[kSums];
  uint32_t before[kStrataThreads];
  float own_scale;
  kernels::ThcQuantiser quantiser;
};

/// One group in the hands of one block. `data` has room for padded(elements) floats, and in decoding for the group's encoding after
/// them.
template <class Block>
struct ThcGroup {
  const Block& block;
  const ThcTables& tables;
  ThcShared& shared;
  float* data;
  kernels::ThcPlace place;
  ThcRange range;
  uint64_t first_unit;  ///< of its encoding in the cell's

  ISTHMUS_DEVICE ThcGroup(const Block& with, const ThcTables& all, ThcShared& common, float* room, uint64_t elements, uint64_t position,
                          uint64_t index)
      : block(with), tables(all), shared(common), data(room) {
    const codec::Piece piece = codec::thc_group(all.group, all.layout, elements, index);
    place = {.position = position + piece.first, .elements = piece.elements};
    range = range_of(piece, elements);
    first_unit = piece.first / codec::kUnitElements;
  }
  [[nodiscard]] ISTHMUS_DEVICE uint32_t units() const { return place.elements / codec::kUnitElements; }
  [[nodiscard]] ISTHMUS_DEVICE kernels::ThcNumbers numbers() const {
    return {.clamp = tables.clamp, .granularity = tables.granularity, .correlated = tables.correlated, .prescale = tables.prescale};
  }
};

// --- scales ------------------------------------------------------------------------------------------------------------------------

/// shared.sums[0] = sum_of_squares: the additions of the definition, at(i) being the elements.
template <class Block, class At>
ISTHMUS_DEVICE void add_squares(const ThcGroup<Block>& group, const At& at) {
  group.block.each([&](uint32_t thread) {
    for (uint32_t sum = thread; sum < kSums; sum += group.block.threads) {
      float total = 0;
      ISTHMUS_UNROLL(8)
      for (uint32_t i = sum; i < group.place.elements; i += kSums) {
        const float value = at(i);
        const float square = value * value;
        total = total + square;
      }
      group.shared.sums[sum] = total;
    }
  });
  for (uint32_t half = kSums / 2; half > 0; half /= 2) {
    group.block.each([&](uint32_t thread) {
      float* sums = group.shared.sums;
      for (uint32_t i = thread; i < half; i += group.block.threads) sums[i] = sums[i] + sums[i + half];
    });
  }
}

/// shared.own_scale = the root of the mean square. The second look is one thread's, in order; but zeros, and what is not finite, are
/// frequent enough to be told by all.
template <class Block, class At>
ISTHMUS_DEVICE void measure(const ThcGroup<Block>& group, const At& at) {
  add_squares(group, at);
  ThcShared& shared = group.shared;
  const uint32_t elements = group.place.elements;
  const float sum = shared.sums[0];
  const bool doubtful = kernels::is_doubtful(sum);
  if (doubtful) {
    group.block.each([&](uint32_t thread) {
      for (uint32_t part = thread; part < kSums; part += group.block.threads) {
        uint32_t largest = 0;
        for (uint32_t i = part; i < elements; i += kSums) {
          const float value = at(i);
          const uint32_t magnitude = __builtin_bit_cast(uint32_t, value) & 0x7fffffffU;
          largest = magnitude > largest ? magnitude : largest;
        }
        shared.largest[part] = largest;
      }
    });
  }
  group.block.each([&](uint32_t thread) {
    if (thread != 0) return;
    double total = double{sum};
    if (doubtful) {
      uint32_t largest = 0;
      for (const uint32_t part : shared.largest) largest = part > largest ? part : largest;
      const bool plain = largest == 0 || largest >= 0x7f800000U;
      total = plain ? double{__builtin_bit_cast(float, largest & 0x7f800000U)} : kernels::wide_sum_of_squares(at, elements);
    }
    shared.own_scale = kernels::scale_of(total, elements);
  });
}

template <class Block>
ISTHMUS_DEVICE void measure_group(const Block& block, const ThcTables& tables, ThcShared& shared, const ThcMeasureTask& task,
                                  uint64_t index) {
  const ThcGroup<Block> group(block, tables, shared, nullptr, task.elements, 0, index);
  with_type(task.in.type, [&](auto type) { measure(group, [&](uint32_t i) { return element_of<decltype(type)>(task, group.range, i); }); });
  block.each([&](uint32_t thread) {
    if (thread == 0) task.scales[index] = shared.own_scale;
  });
}

// --- encoding ----------------------------------------------------------------------------------------------------------------------

/// Column i of a unit in `data`, in the places of its first two elements, which nobody else reads.
template <class Block>
ISTHMUS_DEVICE ThcColumn column_in(const ThcGroup<Block>& group, uint32_t unit, uint32_t i) {
  const float* at = group.data + padded(unit * codec::kUnitElements + i);
  return {__builtin_bit_cast(uint32_t, at[0]), __builtin_bit_cast(uint32_t, at[kColumns])};
}

/// Loads the group's elements and everything that all threads need.
template <class Block>
ISTHMUS_DEVICE void prepare(const ThcGroup<Block>& group, const ThcEncodeTask& task) {
  group.block.each([&](uint32_t thread) {
    const uint32_t threads = group.block.threads;
    with_type(task.in.type, [&](auto type) {
      ISTHMUS_UNROLL(8)
      for (uint32_t i = thread; i < group.place.elements; i += threads) {
        group.data[padded(i)] = element_of<decltype(type)>(task, group.range, i);
      }
    });
    group.shared.signs.make(thread, threads, task.key, group.place);
    for (uint32_t unit = thread; unit <= group.tables.granularity; unit += threads) group.shared.steps[unit] = group.tables.steps[unit];
    for (uint32_t i = thread; task.to.indices && i < 256; i += threads) group.shared.table[i] = group.tables.table[i];
    if (!kernels::has_strata(group.numbers(), task.key)) return;
    for (uint32_t part = thread; part < kStrataThreads; part += threads) {
      const uint32_t mine = kernels::strata_number(task.key, group.place);
      uint32_t before = 0;
      for (uint32_t four = part; 4 * four < task.key.ranks; four += kStrataThreads) {
        before += kernels::strata_before(task.key, group.place, mine, four);
      }
      group.shared.before[part] = before;
    }
  });
}

template <class Block>
ISTHMUS_DEVICE void make_quantiser(const ThcGroup<Block>& group, const kernels::CodecKey& key, float scale) {
  group.block.each([&](uint32_t thread) {
    if (thread != 0) return;
    ThcShared& shared = group.shared;
    uint32_t before = 0;
    if (kernels::has_strata(group.numbers(), key)) {
      for (const uint32_t part : shared.before) before += part;
    }
    shared.quantiser = kernels::quantiser(group.numbers(), key, group.place.elements, before, shared.own_scale, scale);
  });
}

/// A rotated coordinate's index or table value, from fixed point.
ISTHMUS_DEVICE inline uint32_t quantised(const ThcShared& shared, float fixed, uint32_t word, uint32_t q, bool indices) {
  const kernels::ThcQuantiser& how = shared.quantiser;
  const uint32_t u = kernels::coordinate(fixed, how.shift, how.middle);
  const uint32_t step = shared.steps[u >> 8];
  const uint32_t value = step >> 8 & 0xff, gap = step >> 16;
  const bool up = kernels::rounds_up(u - value * 256, gap, kernels::dither_of(word, q, how.stratum));
  if (indices) return (step & 0xff) + (up ? 1 : 0);
  return value + (up ? gap : 0);
}

/// Columns of indices or table values in `data` instead of rotated coordinates. A thread has the dither of one column of the four
/// units of a tile.
template <class Block>
ISTHMUS_DEVICE void quantise(const ThcGroup<Block>& group, const kernels::CodecKey& key, bool indices) {
  constexpr uint32_t kUnits = kernels::kDitherTile / codec::kUnitElements;
  group.block.each([&](uint32_t thread) {
    const uint64_t tile = group.place.position / kernels::kDitherTile;
    const auto skipped = static_cast<uint32_t>(group.place.position % kernels::kDitherTile) / codec::kUnitElements;
    for (uint32_t item = thread; item / kColumns * kUnits < skipped + group.units(); item += group.block.threads) {
      const uint32_t at = item / kColumns, i = item % kColumns;
      const kernels::PhiloxBlock dither = kernels::tile_block(key.seed, tile + at, i, group.shared.quantiser.counter);
      ISTHMUS_UNROLL(4)
      for (uint32_t k = 0; k < kUnits; ++k) {
        const uint32_t unit = at * kUnits + k - skipped;  // wraps before the first
        if (unit >= group.units()) continue;
        float* from = group.data + padded(unit * codec::kUnitElements + i);
        ThcColumn column = {0, 0};
        ISTHMUS_UNROLL(4)
        for (uint32_t q = 0; q < 4; ++q) {
          put_value(column, q, quantised(group.shared, from[padded(16 * q)], dither.word[k], q, indices));
        }
        from[0] = __builtin_bit_cast(float, column.even);
        from[kColumns] = __builtin_bit_cast(float, column.odd);
      }
    }
  });
}

/// data = the rotated elements, in fixed point.
template <class Block>
ISTHMUS_DEVICE void rotate(const ThcGroup<Block>& group) {
  const kernels::ThcQuantiser& how = group.shared.quantiser;
  transform_to_fixed_point(group.block, group.data, group.place.elements, how.factor, [&](float value, uint32_t i) {
    return kernels::flip(value * how.normaliser, group.shared.signs.word(group.place, i), i);
  });
}

/// out(value, i) takes the elements whose levels are in `data`.
template <class Block, class Out>
ISTHMUS_DEVICE void unrotate(const ThcGroup<Block>& group, float factor, const Out& out) {
  const auto in = [&](float* v, uint32_t first) {
    ISTHMUS_UNROLL(32)
    for (uint32_t r = 0; r < kFirstRadix; ++r) v[r] = group.data[padded(first) + r];
  };
  transform(group.block, group.data, group.place.elements, in,
            [&](float value, uint32_t i) { out(kernels::flip(value * factor, group.shared.signs.word(group.place, i), i), i); });
}

/// data = what the columns' sums say of rotated coordinates; column(unit, i) may be in `data` itself.
template <class Block, class Column>
ISTHMUS_DEVICE void levels(const ThcGroup<Block>& group, uint32_t middle, bool indices, const Column& column) {
  group.block.each([&](uint32_t thread) {
    for (uint32_t item = thread; item < group.units() * kColumns; item += group.block.threads) {
      const uint32_t unit = item / kColumns, i = item % kColumns;
      const ThcColumn sums = column(unit, i);
      float* to = group.data + padded(unit * codec::kUnitElements + i);
      ISTHMUS_UNROLL(4)
      for (uint32_t q = 0; q < 4; ++q) {
        const uint32_t value = value_of(sums, q);
        to[padded(16 * q)] = kernels::level_of(indices ? group.shared.table[value & 0xff] : value, middle);
      }
    }
  });
}

template <class Block>
ISTHMUS_DEVICE void write_zeros(const ThcGroup<Block>& group, const ThcEncodeTask& task) {
  uint32_t* words = task.to.unit(group.first_unit);
  group.block.each([&](uint32_t thread) {
    for (uint32_t n = thread; n < group.units() * 2 * task.to.width; n += group.block.threads) words[n] = 0;
    // Nothing is lost of zeros, and nothing can make up for what is no number.
    for (uint32_t i = thread; task.lost != nullptr && i < group.range.count; i += group.block.threads) task.lost[group.range[i]] = 0;
  });
}

template <class Block>
ISTHMUS_DEVICE void write_words(const ThcGroup<Block>& group, const ThcEncodeTask& task) {
  uint32_t* words = task.to.unit(group.first_unit);
  const uint32_t in_unit = 2 * task.to.width;
  group.block.each([&](uint32_t thread) {
    for (uint32_t n = thread; n < group.units() * in_unit; n += group.block.threads) {
      const uint32_t unit = n / in_unit;
      words[n] = pack_word(n % in_unit, task.to.width, [&](uint32_t i) { return column_in(group, unit, i); });
    }
  });
}

/// What the encoding, whose columns are in `data`, lacks of the elements.
template <class Block>
ISTHMUS_DEVICE void keep_lost(const ThcGroup<Block>& group, const ThcEncodeTask& task, float scale) {
  levels(group, group.tables.granularity, task.to.indices, [&](uint32_t unit, uint32_t i) { return column_in(group, unit, i); });
  unrotate(group, kernels::decode_factor(group.numbers(), group.place.elements, scale, 1, 1),
           [&](float value, uint32_t i) { group.data[padded(i)] = value; });
  group.block.each([&](uint32_t thread) {
    with_type(task.in.type, [&](auto type) {
      ISTHMUS_UNROLL(8)
      for (uint32_t i = thread; i < group.range.count; i += group.block.threads) {
        task.lost[group.range[i]] = element_of<decltype(type)>(task, group.range, i) - group.data[padded(i)];
      }
    });
  });
}

template <class Block>
ISTHMUS_DEVICE void encode_group(const Block& block, const ThcTables& tables, ThcShared& shared, float* data, const ThcEncodeTask& task,
                                 uint64_t index) {
  const ThcGroup<Block> group(block, tables, shared, data, task.elements, task.position, index);
  const float scale = task.scales[index];
  if (kernels::is_nan(scale) || scale == 0) return write_zeros(group, task);
  prepare(group, task);
  measure(group, [&](uint32_t i) { return data[padded(i)]; });
  make_quantiser(group, task.key, scale);
  rotate(group);
  quantise(group, task.key, task.to.indices);
  write_words(group, task);
  if (task.lost != nullptr) keep_lost(group, task, scale);
}

// --- decoding ----------------------------------------------------------------------------------------------------------------------

template <class T>
ISTHMUS_DEVICE void store(const ThcDecodeTask& task, const ThcRange& range, uint32_t i, float value) {
  if (i < range.count) static_cast<T*>(task.out.data)[range[i]] = narrowed<T>(value);
}

template <class Block>
ISTHMUS_DEVICE void decode_group(const Block& block, const ThcTables& tables, ThcShared& shared, float* data, const ThcDecodeTask& task,
                                 uint64_t index) {
  const ThcGroup<Block> group(block, tables, shared, data, task.elements, task.position, index);
  const float scale = task.scales[index];
  if (kernels::is_nan(scale) || scale == 0) {
    return block.each([&](uint32_t thread) {
      for (uint32_t i = thread; i < group.range.count; i += block.threads) {
        with_type(task.out.type, [&](auto type) { store<decltype(type)>(task, group.range, i, scale); });
      }
    });
  }
  const uint32_t* from = task.from.unit(group.first_unit);
  auto* words = reinterpret_cast<uint32_t*>(data + padded(group.place.elements));
  block.each([&](uint32_t thread) {
    ISTHMUS_UNROLL(8)
    for (uint32_t n = thread; n < group.units() * 2 * task.from.width; n += block.threads) words[n] = from[n];
    shared.signs.make(thread, block.threads, task.key, group.place);
    for (uint32_t i = thread; task.from.indices && i < 256; i += block.threads) shared.table[i] = tables.table[i];
  });
  levels(group, task.summands * tables.granularity, task.from.indices,
         [&](uint32_t unit, uint32_t i) { return unpack_column(words + unit * 2 * task.from.width, task.from.width, i); });
  const float factor = kernels::decode_factor(group.numbers(), group.place.elements, scale, task.summands, task.multiplier);
  with_type(task.out.type, [&](auto type) {
    unrotate(group, factor, [&](float value, uint32_t i) { store<decltype(type)>(task, group.range, i, value); });
  });
}

}  // namespace isthmus::cuda
