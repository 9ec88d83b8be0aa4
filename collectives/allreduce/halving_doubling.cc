// SPDX-License-Identifier: Apache-2.0
// Halving-doubling allreduce (Rabenseifner's, here for any rank count): recursive halving reduces, recursive doubling gathers on the
// same way back. Fewest bytes in logarithmically many steps; neighbours exchange the largest halves, so with ranks in site order
// most bytes stay near.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(static_cast<uint32_t>(all.size), kCellAlign);
  const Chunk whole = b.out(0, b.cells());
  const auto in = shares(b.in(0, b.cells()), all.size), out = shares(whole, all.size);
  const Halvings path = halvings(all, Pairing::near);
  const Chunk& own = out[static_cast<size_t>(path.share)];
  halving_reduce_scatter(b, all, path, in, whole, own);
  b.complete(own);
  doubling_allgather(b, all, path, own, out);
}

}  // namespace

extern const plan::Algorithm allreduce_halving_doubling = {.name = "halving_doubling",
                                                           .collective = Collective::allreduce,
                                                           .needs = {},
                                                           .tunables = {},
                                                           .steps_formula = "2 ceil(lg P)",
                                                           .bytes_formula = "2N(P-1)/P",
                                                           .emit = emit};

}  // namespace isthmus::collectives
