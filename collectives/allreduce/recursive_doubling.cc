// SPDX-License-Identifier: Apache-2.0
// Recursive doubling allreduce: pairs at distance 1, 2, 4, ... exchange whole buffers. Logarithmically many steps without a second
// round, so best for small buffers. Ranks beyond a power of two fold into their neighbour first and are handed the result last.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Chunk in = b.in(0, b.cells()), out = b.out(0, b.cells());
  recursive_doubling(b, everyone(shape), in, out);
}

}  // namespace

extern const plan::Algorithm allreduce_recursive_doubling = {.name = "recursive_doubling",
                                                             .collective = Collective::allreduce,
                                                             .needs = {},
                                                             .tunables = {},
                                                             .steps_formula = "up to ceil(lg P) + F",
                                                             .bytes_formula = "N(K lg K + 2(P-K))/P",
                                                             .emit = emit};

}  // namespace isthmus::collectives
