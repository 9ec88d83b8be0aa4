// SPDX-License-Identifier: Apache-2.0
// Ring allreduce: a reduce-scatter around the ring leaves each rank one finished share, a second round brings all shares
// everywhere. Fewest bytes for any rank count and only neighbours talk; 2(P-1) messages in a row make it slow for small buffers.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(static_cast<uint32_t>(all.size) * shape.segments, kCellAlign);
  const auto in = shares(b.in(0, b.cells()), all.size), out = shares(b.out(0, b.cells()), all.size);
  const Chunk& own = out[static_cast<size_t>(all.position)];
  ring_reduce_scatter(b, all, in, out);
  complete_cells(b, own);
  ring_allgather(b, all, own, out);
}

}  // namespace

extern const plan::Algorithm allreduce_ring = {.name = "ring",
                                               .collective = Collective::allreduce,
                                               .needs = {},
                                               .tunables = kTunables,
                                               .steps_formula = "2(P-1)",
                                               .bytes_formula = "2N(P-1)/P",
                                               .emit = emit};

}  // namespace isthmus::collectives
