// SPDX-License-Identifier: Apache-2.0
// Recursive halving reduce-scatter for any rank count: in each step the two sides of a set of ranks exchange the sums that the other
// side goes on with. Fewest bytes in logarithmically many steps; half the buffer of scratch.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(1, kCellAlign);
  const auto in = shares(b.in(0, b.cells()), all.size);
  const Chunk mine = in[static_cast<size_t>(all.position)], own = b.out(mine.begin, mine.end);
  const Halvings path = halvings(all, Pairing::far);
  Chunk work = own;
  if (path.steps.size() > 1) {
    const Chunk side = joined(in, path.steps[0].mine_begin, path.steps[0].mine_end);
    work = b.scratch(side.begin, side.end);
  }
  halving_reduce_scatter(b, all, path, in, work, own);
  b.complete(own);
}

}  // namespace

extern const plan::Algorithm reduce_scatter_halving = {.name = "halving",
                                                       .collective = Collective::reduce_scatter,
                                                       .needs = {},
                                                       .tunables = {},
                                                       .steps_formula = "up to ceil(lg P)",
                                                       .bytes_formula = "N(P-1)/P",
                                                       .emit = emit};

}  // namespace isthmus::collectives
