// SPDX-License-Identifier: Apache-2.0
// Ring allgather: each rank passes on the block that it received last. Fewest bytes and only neighbours talk; P-1 messages in a
// row, each segment a pipeline of its own.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(shape.segments, kCellAlign);
  const auto out = shares(b.out(0, b.cells()), all.size);
  ring_allgather(b, all, own_block(shape, b), out);
}

}  // namespace

extern const plan::Algorithm allgather_ring = {.name = "ring",
                                               .collective = Collective::allgather,
                                               .needs = {},
                                               .tunables = kTunables,
                                               .steps_formula = "P-1",
                                               .bytes_formula = "N(P-1)/P",
                                               .emit = emit};

}  // namespace isthmus::collectives
