// SPDX-License-Identifier: Apache-2.0
// Recursive doubling barrier: an allreduce of one element, since whoever has the sum knows that everybody has come. The caller binds the
// plan to a count of 1 and any op.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Chunk in = b.in(0, b.cells()), out = b.out(0, b.cells());
  recursive_doubling(b, everyone(shape), in, out);
}

}  // namespace

extern const plan::Algorithm barrier_recursive_doubling = {.name = "recursive_doubling",
                                                           .collective = Collective::barrier,
                                                           .needs = {},
                                                           .tunables = {},
                                                           .steps_formula = "up to ceil(lg P) + F",
                                                           .bytes_formula = "N(K lg K + 2(P-K))/P",
                                                           .emit = emit};

}  // namespace isthmus::collectives
