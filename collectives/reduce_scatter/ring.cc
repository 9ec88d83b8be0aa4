// SPDX-License-Identifier: Apache-2.0
// Ring reduce-scatter: partial sums of a block travel once around the ring and end at the block's rank. Fewest bytes and only
// neighbours talk. Two blocks of scratch: while one partial is on its way out the next one comes in.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(shape.segments, kCellAlign);
  const auto in = shares(b.in(0, b.cells()), all.size);
  const Chunk mine = in[static_cast<size_t>(all.position)], own = b.out(mine.begin, mine.end);
  std::vector<Chunk> homes(in.size(), own);
  if (all.size > 2) {
    const Chunk relays[] = {b.scratch(mine.begin, mine.end), b.scratch(mine.begin, mine.end)};
    for (int32_t back = 2; back < all.size; ++back) homes[static_cast<size_t>(all.wrap(all.position - back))] = relays[back % 2];
  }
  ring_reduce_scatter(b, all, in, homes);
  complete_cells(b, own);
}

}  // namespace

extern const plan::Algorithm reduce_scatter_ring = {.name = "ring",
                                                    .collective = Collective::reduce_scatter,
                                                    .needs = {},
                                                    .tunables = kTunables,
                                                    .steps_formula = "P-1",
                                                    .bytes_formula = "N(P-1)/P",
                                                    .emit = emit};

}  // namespace isthmus::collectives
