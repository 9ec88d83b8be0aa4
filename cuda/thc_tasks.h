// SPDX-License-Identifier: Apache-2.0
// What the kernels of the homomorphic codec are told: plain values that travel as kernel arguments, with pointers into device memory.
// Made by thc_kernels.cu and tests, read by thc_device.h and thc_sum.h. Nothing can fail.
#pragma once

#include <cstdint>

#include "cuda/block.h"
#include "kernels/arithmetic.h"
#include "kernels/coding.h"
#include "kernels/thc_group.h"

namespace isthmus::cuda {

/// What a codec::Thc comes to without containers.
struct ThcTables {
  double clamp;
  uint32_t granularity;
  uint32_t group;
  codec::ThcLayout layout;
  bool correlated;
  uint32_t steps[256];  ///< for every whole table unit the last table value not above it: index, value << 8, gap << 16
  uint8_t table[256];
  float prescale[codec::Thc::kPrescaleSteps + 1];
};

inline ThcTables tables_of(const codec::Thc& thc) {
  ThcTables tables = {.clamp = thc.clamp,
                      .granularity = thc.config.granularity,
                      .group = thc.config.group,
                      .layout = thc.config.layout,
                      .correlated = thc.config.correlated,
                      .steps = {},
                      .table = {},
                      .prescale = {}};
  for (uint32_t unit = 0; unit < 256; ++unit) {
    const uint32_t k = kernels::level_below(unit * 256, thc.table.data(), thc.levels());
    tables.steps[unit] = k | uint32_t{thc.table[k]} << 8 | uint32_t{thc.gap[k]} << 16;
    tables.table[unit] = thc.table[unit];
  }
  for (uint32_t i = 0; i <= codec::Thc::kPrescaleSteps; ++i) tables.prescale[i] = thc.prescale[i];
  return tables;
}

/// Encoded elements: indices into the table, or sums of table values, of `width` bits.
template <class Word>
struct ThcWords {
  Word* words;
  uint32_t width;
  bool indices;

  /// Those of a unit.
  [[nodiscard]] ISTHMUS_DEVICE Word* unit(uint64_t index) const { return words + index * 2 * width; }
};

/// A cell's elements in user memory: float32, float16 or bfloat16.
template <class Void>
struct ThcElements {
  Void* data;
  DataType type;
};

struct ThcMeasureTask {
  uint64_t elements;
  ThcElements<const void> in;
  const float* residual;  ///< added to each, or null
  float* scales;          ///< to: this rank's, one a group
};

struct ThcEncodeTask {
  uint64_t elements, position;
  kernels::CodecKey key;
  ThcElements<const void> in;
  const float* residual;  ///< added to each, or null
  const float* scales;    ///< over all ranks
  ThcWords<uint32_t> to;
  float* lost;  ///< to: what the encoding lacks, or null; may be `residual`
};

struct ThcDecodeTask {
  uint64_t elements, position;
  kernels::CodecKey key;
  ThcWords<const uint32_t> from;
  const float* scales;
  uint32_t summands, multiplier;
  ThcElements<void> out;
};

struct ThcAddTask {
  uint64_t units;
  ThcWords<uint32_t> to;
  ThcWords<const uint32_t> a, b;
};

/// Which of a cell's elements a group is made of; those from `count` on do not exist.
struct ThcRange {
  uint64_t begin, stride;
  uint32_t count;

  [[nodiscard]] ISTHMUS_DEVICE uint64_t operator[](uint32_t i) const { return begin + i * stride; }
};

ISTHMUS_DEVICE inline ThcRange range_of(const codec::Piece& piece, uint64_t elements) {
  const uint64_t left = elements - piece.begin;  // of a column more than it has
  return {piece.begin, piece.stride, left < piece.elements ? static_cast<uint32_t>(left) : piece.elements};
}

/// Calls function(T{}) with the element type's own type, so that loops need not ask.
template <class Function>
ISTHMUS_DEVICE void with_type(DataType type, const Function& function) {
  if (type == DataType::float16) return function(Float16{});
  if (type == DataType::bfloat16) return function(BFloat16{});
  return function(float{});
}

/// Element i of a group, with what an earlier encoding lacked of it.
template <class T, class Task>
ISTHMUS_DEVICE float element_of(const Task& task, const ThcRange& range, uint32_t i) {
  if (i >= range.count) return 0;
  const float value = kernels::widen(static_cast<const T*>(task.in.data)[range[i]]);
  return task.residual != nullptr ? value + task.residual[range[i]] : value;
}

/// A result as the user's type: what is no number stays as it is in float32.
template <class T>
ISTHMUS_DEVICE T narrowed(float value) {
  if constexpr (kIsMinifloat<T>) {
    return T::from_float(value);
  } else {
    return value;
  }
}

}  // namespace isthmus::cuda
