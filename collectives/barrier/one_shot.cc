// SPDX-License-Identifier: Apache-2.0
// One-shot barrier: everybody tells everybody. An allreduce of one element, since whoever has the sum knows that everybody has come.
// The caller binds the plan to a count of 1 and any op.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Chunk in = b.in(0, b.cells()), out = b.out(0, b.cells());
  one_shot(b, everyone(shape), in, out);
}

}  // namespace

extern const plan::Algorithm barrier_one_shot = {.name = "one_shot",
                                                 .collective = Collective::barrier,
                                                 .needs = {.max_ranks = 64},
                                                 .tunables = {},
                                                 .steps_formula = "min(1, P-1)",
                                                 .bytes_formula = "N(P-1)",
                                                 .emit = emit};

}  // namespace isthmus::collectives
