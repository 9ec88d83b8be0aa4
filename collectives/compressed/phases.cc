// SPDX-License-Identifier: Apache-2.0
// What the algorithms that add encodings have in common: windows, scales, segments. See phases.h.
#include "collectives/compressed/phases.h"

#include <algorithm>

namespace isthmus::collectives {

namespace {

/// Up to so many positions everybody sends its scales to everybody: one message in a row, and few bytes more.
constexpr int32_t kMostDirect = 8;
/// How many segments ahead of their encoding scales are exchanged, and behind it sums are decoded.
constexpr uint32_t kLead = 2;
/// A reduce-scatter exchanges its scales in at most so many parts: later ones are measured while the first are on their way.
constexpr uint32_t kMostScaleParts = 4;

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

Chunk on(const Chunk& window, const Chunk& cells) { return {window.region, cells.begin, cells.end}; }

std::vector<Chunk> on(const Chunk& window, Chunks cells) {
  std::vector<Chunk> result;
  result.reserve(cells.size());
  for (const Chunk& chunk : cells) result.push_back(on(window, chunk));
  return result;
}

void join_scales(Builder& b, const Group& group, const Coded& coded, const Chunk& cells) {
  if (!coded.scaled) return;
  const Chunk measured = on(coded.measured, cells), joined = on(coded.scales, cells);
  b.measure(measured, cells);
  if (group.size <= kMostDirect) return join_directly(b, group, measured, joined);
  doubling_of_scales(b, group, measured, joined);
}

void encode(Builder& b, const Coded& coded, const Chunk& cells) { b.encode(on(coded.indices, cells), cells, on(coded.scales, cells)); }

void decode(Builder& b, const Group& all, const Coded& coded, const Chunk& cells) {
  for (uint32_t index = 0; index < cells.cells(); ++index) {
    const Chunk cell = cell_of(cells, index), result = on(coded.out, cell);
    b.decode(result, on(coded.sums, cell), on(coded.scales, cell), static_cast<uint16_t>(all.size));
    b.complete(result);
  }
}

void copy_alone(Builder& b) { b.copy(b.out(0, b.cells()), b.in(0, b.cells())); }

void pipelined(uint32_t segments, const Stage& scales, const Stage& sum, const Stage& decode) {
  for (uint32_t now = 0; now < segments + 2 * kLead; ++now) {
    if (now < segments) scales(now);
    if (now >= kLead && now < segments + kLead) sum(now - kLead);
    if (now >= 2 * kLead) decode(now - 2 * kLead);
  }
}

void coded_allreduce(const Shape& shape, Builder& b, int32_t parts, const Summing& sum) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const auto cells = static_cast<uint32_t>(parts);
  const Coded coded = open_coded(shape, b, cells * shape.segments);
  const auto segment_of = [&](uint32_t at) { return b.part(coded.in, at * cells, (at + 1) * cells); };
  pipelined(
      shape.segments, [&](uint32_t at) { join_scales(b, all, coded, segment_of(at)); },
      [&](uint32_t at) { sum(coded, shares(segment_of(at), parts)); }, [&](uint32_t at) { decode(b, all, coded, segment_of(at)); });
}

void coded_reduce_scatter(const Shape& shape, Builder& b, const Summing& sum) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const Coded coded = open_coded(shape, b, shape.segments);
  const std::vector<Chunk> blocks = shares(coded.in, all.size);
  const auto ranks = static_cast<uint32_t>(all.size), parts = std::min({ranks, shape.segments, kMostScaleParts});
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t begin = part * ranks / parts, end = (part + 1) * ranks / parts;
    join_scales(b, all, coded, joined(blocks, static_cast<int32_t>(begin), static_cast<int32_t>(end)));
  }
  const auto segment_of = [&](uint32_t at) {
    std::vector<Chunk> cells;
    cells.reserve(blocks.size());
    for (const Chunk& block : blocks) cells.push_back(cell_of(block, at));
    return cells;
  };
  const auto own = static_cast<size_t>(all.position);
  pipelined(
      shape.segments, [](uint32_t) {}, [&](uint32_t at) { sum(coded, segment_of(at)); },
      [&](uint32_t at) { decode(b, all, coded, cell_of(blocks[own], at)); });
}

}  // namespace isthmus::collectives
