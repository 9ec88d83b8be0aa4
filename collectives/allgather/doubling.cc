// SPDX-License-Identifier: Apache-2.0
// Recursive doubling allgather for any rank count: the two sides of a set of ranks exchange all blocks they have. Fewest steps, and
// fewest bytes where the rank count is a power of two.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(1, kCellAlign);
  const auto out = shares(b.out(0, b.cells()), all.size);
  doubling_allgather(b, all, halvings(all, Pairing::far), own_block(shape, b), out);
}

}  // namespace

extern const plan::Algorithm allgather_doubling = {.name = "doubling",
                                                   .collective = Collective::allgather,
                                                   .needs = {},
                                                   .tunables = {},
                                                   .steps_formula = "up to ceil(lg P)",
                                                   .bytes_formula = "N(P-1)/P",
                                                   .emit = emit};

}  // namespace isthmus::collectives
