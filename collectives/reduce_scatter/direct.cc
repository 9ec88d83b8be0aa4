// SPDX-License-Identifier: Apache-2.0
// Direct reduce-scatter: everybody sends block p to p, p adds the contributions in rank order. One message in a row and fewest bytes;
// each rank talks to all others at once. With segments a sum stays in cache until its last contribution.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(shape.segments, kCellAlign);
  const auto in = shares(b.in(0, b.cells()), all.size);
  const Chunk mine = in[static_cast<size_t>(all.position)], own = b.out(mine.begin, mine.end);
  direct_reduce_scatter(b, all, in, own);
  complete_cells(b, own);
}

}  // namespace

extern const plan::Algorithm reduce_scatter_direct = {.name = "direct",
                                                      .collective = Collective::reduce_scatter,
                                                      .needs = {.max_ranks = 64},
                                                      .tunables = kTunables,
                                                      .steps_formula = "min(1, P-1)",
                                                      .bytes_formula = "N(P-1)/P",
                                                      .emit = emit};

}  // namespace isthmus::collectives
