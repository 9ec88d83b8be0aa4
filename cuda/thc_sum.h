// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's device code that adds encodings, kTileUnits units of 64 elements a thread block, whatever groups they belong
// to. Instantiated by thc_kernels.cu, and by tests that run it on the CPU. Nothing can fail.
#pragma once

#include <cstdint>

#include "cuda/block.h"
#include "cuda/thc_tasks.h"
#include "cuda/thc_words.h"

namespace isthmus::cuda {

inline constexpr uint32_t kTileUnits = 64;
inline constexpr uint32_t kTileColumns = kTileUnits * kColumns;

struct ThcSumShared {
  uint32_t a[kTileUnits * 2 * codec::kMaxSumBits], b[kTileUnits * 2 * codec::kMaxSumBits];
  uint32_t even[kTileColumns], odd[kTileColumns];
  uint8_t table[256];
};

/// One column of an encoding's unit, as table values.
ISTHMUS_DEVICE inline ThcColumn summand(const ThcSumShared& shared, const uint32_t* words, uint32_t width, bool indices, uint32_t item) {
  const ThcColumn column = unpack_column(words + item / kColumns * 2 * width, width, item % kColumns);
  if (!indices) return column;
  ThcColumn values = {0, 0};
  ISTHMUS_UNROLL(4)
  for (uint32_t q = 0; q < 4; ++q) put_value(values, q, shared.table[value_of(column, q) & 0xff]);
  return values;
}

/// The tile-th kTileUnits units, or as many as there are. `task.to` may be a or b where the widths are equal.
template <class Block>
ISTHMUS_DEVICE void add_tile(const Block& block, const ThcTables& tables, ThcSumShared& shared, const ThcAddTask& task, uint64_t tile) {
  const uint64_t first = tile * kTileUnits, left = task.units - first;
  const uint32_t units = left < kTileUnits ? static_cast<uint32_t>(left) : kTileUnits;
  const uint32_t* a = task.a.unit(first);
  const uint32_t* b = task.b.unit(first);
  block.each([&](uint32_t thread) {
    ISTHMUS_UNROLL(4)
    for (uint32_t n = thread; n < units * 2 * task.a.width; n += block.threads) shared.a[n] = a[n];
    ISTHMUS_UNROLL(4)
    for (uint32_t n = thread; n < units * 2 * task.b.width; n += block.threads) shared.b[n] = b[n];
    const bool indices = task.a.indices || task.b.indices;
    for (uint32_t i = thread; indices && i < 256; i += block.threads) shared.table[i] = tables.table[i];
  });
  block.each([&](uint32_t thread) {
    for (uint32_t item = thread; item < units * kColumns; item += block.threads) {
      const ThcColumn sum =
          add(summand(shared, shared.a, task.a.width, task.a.indices, item), summand(shared, shared.b, task.b.width, task.b.indices, item));
      shared.even[item] = sum.even;
      shared.odd[item] = sum.odd;
    }
  });
  uint32_t* to = task.to.unit(first);
  const uint32_t in_unit = 2 * task.to.width;
  block.each([&](uint32_t thread) {
    for (uint32_t n = thread; n < units * in_unit; n += block.threads) {
      const uint32_t column = n / in_unit * kColumns;
      to[n] = pack_word(n % in_unit, task.to.width, [&](uint32_t i) { return ThcColumn{shared.even[column + i], shared.odd[column + i]}; });
    }
  });
}

}  // namespace isthmus::cuda
