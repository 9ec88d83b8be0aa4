// SPDX-License-Identifier: Apache-2.0
// The order in which compressed algorithms emit their segments. See phases.h.
#include <algorithm>

#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

/// A reduce-scatter exchanges its scales in at most so many parts: later ones are measured while the first are on their way.
constexpr uint32_t kMostScaleParts = 4;

}  // namespace

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

void join_scales_of_blocks(const Shape& shape, Builder& b, const Coded& coded) {
  const Group all = everyone(shape);
  const std::vector<Chunk> blocks = shares(coded.in, all.size);
  const auto ranks = static_cast<uint32_t>(all.size), parts = std::min({ranks, shape.segments, kMostScaleParts});
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t begin = part * ranks / parts, end = (part + 1) * ranks / parts;
    join_scales(b, all, coded, joined(blocks, static_cast<int32_t>(begin), static_cast<int32_t>(end)));
  }
}

void coded_reduce_scatter(const Shape& shape, Builder& b, const Summing& sum) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const Coded coded = open_coded(shape, b, shape.segments);
  join_scales_of_blocks(shape, b, coded);
  const std::vector<Chunk> blocks = shares(coded.in, all.size);
  const auto own = static_cast<size_t>(all.position);
  pipelined(
      shape.segments, [](uint32_t) {}, [&](uint32_t at) { sum(coded, cells_of(blocks, at)); },
      [&](uint32_t at) { decode(b, all, coded, cell_of(blocks[own], at)); });
}

}  // namespace isthmus::collectives
