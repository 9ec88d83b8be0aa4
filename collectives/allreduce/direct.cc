// SPDX-License-Identifier: Apache-2.0
// Direct allreduce: everybody sends share p to p, p adds the contributions in rank order and sends the sum to everybody. Two
// messages in a row and fewest bytes, and every element is added in the order 0, 1, 2, ... whatever its place; but each rank
// talks to all others at once. With segments a sum stays in cache until its last contribution.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(static_cast<uint32_t>(all.size) * shape.segments, kCellAlign);
  const auto in = shares(b.in(0, b.cells()), all.size), out = shares(b.out(0, b.cells()), all.size);
  const Chunk& own = out[static_cast<size_t>(all.position)];
  direct_reduce_scatter(b, all, in, own);
  complete_cells(b, own);
  direct_allgather(b, all, own, out);
}

}  // namespace

extern const plan::Algorithm allreduce_direct = {.name = "direct",
                                                 .collective = Collective::allreduce,
                                                 .needs = {.max_ranks = 64},
                                                 .tunables = kTunables,
                                                 .steps_formula = "2 min(1, P-1)",
                                                 .bytes_formula = "2N(P-1)/P",
                                                 .emit = emit};

}  // namespace isthmus::collectives
