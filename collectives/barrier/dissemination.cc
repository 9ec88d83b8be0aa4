// SPDX-License-Identifier: Apache-2.0
// Dissemination barrier: in round k everybody tells the rank 2^k ahead what it has heard of, so after ceil(lg P) rounds everybody has
// heard of everybody. What travels is one element: the plan is bound to a count of 1 and an idempotent op (max), because news may
// arrive twice when P is no power of two.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (shape.op != ReduceOp::max) return b.fail("a barrier needs the op max, because news may arrive twice");
  const Chunk out = b.out(0, b.cells());
  Chunk heard = b.in(0, b.cells());
  for (int32_t distance = 1; distance < all.size; distance *= 2) {
    b.send(all.wrap(all.position + distance), heard);
    b.recv_reduce(all.wrap(all.position - distance), out, heard);
    heard = out;
  }
  place(b, out, heard);
}

}  // namespace

extern const plan::Algorithm barrier_dissemination = {.name = "dissemination",
                                                      .collective = Collective::barrier,
                                                      .needs = {},
                                                      .tunables = {},
                                                      .steps_formula = "ceil(lg P)",
                                                      .bytes_formula = "N ceil(lg P)",
                                                      .emit = emit};

}  // namespace isthmus::collectives
