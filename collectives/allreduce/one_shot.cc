// SPDX-License-Identifier: Apache-2.0
// One-shot allreduce: everybody sends its whole buffer to everybody and adds all of them in rank order. One message in a row, so best for
// tiny buffers and few ranks; the bits are those of the direct allreduce.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Chunk in = b.in(0, b.cells()), out = b.out(0, b.cells());
  one_shot(b, everyone(shape), in, out);
}

}  // namespace

extern const plan::Algorithm allreduce_one_shot = {.name = "one_shot",
                                                   .collective = Collective::allreduce,
                                                   .needs = {.max_ranks = 64},
                                                   .tunables = {},
                                                   .steps_formula = "min(1, P-1)",
                                                   .bytes_formula = "N(P-1)",
                                                   .emit = emit};

}  // namespace isthmus::collectives
