// SPDX-License-Identifier: Apache-2.0
// What the algorithms that add encodings have in common: windows, scales, coding. See phases.h.
#include "collectives/compressed/phases.h"

#include <algorithm>

namespace isthmus::collectives {

namespace {

/// Up to so many positions everybody sends its scales to everybody: one message in a row, and few bytes more.
constexpr int32_t kMostDirect = 8;

void join_directly(Builder& b, const Group& group, const Chunk& measured, const Chunk& joined) {
  for (int32_t distance = 1; distance < group.size; ++distance) {
    b.send(group.rank_at(group.wrap(group.position + distance)), measured);
  }
  Chunk held = measured;
  for (int32_t distance = 1; distance < group.size; ++distance) {
    b.recv_reduce_scale(group.rank_at(group.wrap(group.position - distance)), joined, held);
    held = joined;
  }
}

}  // namespace

Coded open_coded(const Shape& shape, Builder& b, uint32_t cells_per_block) {
  b.split(cells_per_block, shape.codec == nullptr ? 1 : shape.codec->block_elements);
  const uint32_t cells = b.cells(), own = static_cast<uint32_t>(shape.group.position) * cells_per_block;
  const bool scatters = shape.collective == Collective::reduce_scatter;
  const uint32_t begin = scatters ? own : 0, end = scatters ? own + cells_per_block : cells;
  return {.in = b.in(0, cells),
          .out = b.out(begin, end),
          .measured = b.scratch(0, cells, plan::Layout::scale),
          .scales = b.scratch(0, cells, plan::Layout::scale),
          .indices = b.scratch(0, cells, plan::Layout::encoded, 1),
          .sums = b.scratch(begin, end, plan::Layout::encoded, static_cast<uint16_t>(shape.group.size)),
          .scaled = shape.codec == nullptr || shape.codec->needs_scale};
}

std::vector<Chunk> cut(const Chunk& whole, uint32_t parts) {
  const uint32_t cells = whole.cells(), count = std::min(parts, cells);
  std::vector<Chunk> result;
  result.reserve(count);
  for (uint32_t part = 0; part < count; ++part) {
    result.push_back({whole.region, whole.begin + part * cells / count, whole.begin + (part + 1) * cells / count});
  }
  return result;
}

void join_scales(Builder& b, const Group& group, const Coded& coded, const Chunk& cells) {
  if (!coded.scaled) return;
  measure(b, coded, cells);
  join(b, group, on(coded.measured, cells), on(coded.scales, cells));
}

void measure(Builder& b, const Coded& coded, const Chunk& cells) {
  for (uint32_t index = 0; index < cells.cells(); ++index) {
    const Chunk cell = cell_of(cells, index);
    b.measure(on(coded.measured, cell), cell);
  }
}

void join(Builder& b, const Group& group, const Chunk& from, const Chunk& to) {
  group.size <= kMostDirect ? join_directly(b, group, from, to) : doubling_of_scales(b, group, from, to);
}

void encode(Builder& b, const Coded& coded, const Chunk& cells) {
  for (uint32_t index = 0; index < cells.cells(); ++index) {
    const Chunk cell = cell_of(cells, index);
    b.encode(on(coded.indices, cell), cell, on(coded.scales, cell), on(coded.measured, cell));
  }
}

void decode(Builder& b, const Group& all, const Coded& coded, const Chunk& cells) {
  for (uint32_t index = 0; index < cells.cells(); ++index) {
    const Chunk cell = cell_of(cells, index), result = on(coded.out, cell);
    b.decode(result, on(coded.sums, cell), on(coded.scales, cell), static_cast<uint16_t>(all.size));
    b.complete(result);
  }
}

void copy_alone(Builder& b) { b.copy(b.out(0, b.cells()), b.in(0, b.cells())); }

}  // namespace isthmus::collectives
