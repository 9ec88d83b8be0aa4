// SPDX-License-Identifier: Apache-2.0
// Pipelined chain broadcast: segments travel from the root from neighbour to neighbour. Nobody sends the buffer more than once,
// so with enough segments it takes little more than one buffer's time at any rank count.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 256}};

void emit(const Shape& shape, Builder& b) {
  b.split(shape.segments, kCellAlign);
  const Neighbours chain = neighbours(everyone(shape), shape.root);
  const Chunk out = b.out(0, b.cells()), in = chain.before < 0 ? b.in(0, b.cells()) : Chunk{};
  chain_broadcast(b, chain, in, out);
}

}  // namespace

extern const plan::Algorithm broadcast_chain = {.name = "chain",
                                                .collective = Collective::broadcast,
                                                .needs = {},
                                                .tunables = kTunables,
                                                .steps_formula = "P-1",
                                                .bytes_formula = "N(P-1)/P",
                                                .emit = emit};

}  // namespace isthmus::collectives
