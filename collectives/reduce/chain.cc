// SPDX-License-Identifier: Apache-2.0
// Pipelined chain reduce: partial sums of segments move from neighbour to neighbour towards the root. Nobody sends the buffer more
// than once, so with enough segments it takes little more than one buffer's time at any rank count.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 256}};

void emit(const Shape& shape, Builder& b) {
  b.split(shape.segments, kCellAlign);
  const Neighbours chain = neighbours(everyone(shape), shape.root);
  chain_reduce(b, chain, b.in(0, b.cells()), room_for_chain(b, chain));
}

}  // namespace

extern const plan::Algorithm reduce_chain = {.name = "chain",
                                             .collective = Collective::reduce,
                                             .needs = {},
                                             .tunables = kTunables,
                                             .steps_formula = "P-1",
                                             .bytes_formula = "N(P-1)/P",
                                             .emit = emit};

}  // namespace isthmus::collectives
