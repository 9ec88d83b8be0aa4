// SPDX-License-Identifier: Apache-2.0
// Direct allgather: everybody sends its block to everybody. One message in a row and fewest bytes; each rank talks to all others at
// once, and on one host every block is read where it lies.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(shape.segments, kCellAlign);
  const auto out = shares(b.out(0, b.cells()), all.size);
  direct_allgather(b, all, own_block(shape, b), out);
}

}  // namespace

extern const plan::Algorithm allgather_direct = {.name = "direct",
                                                 .collective = Collective::allgather,
                                                 .needs = {.max_ranks = 64},
                                                 .tunables = kTunables,
                                                 .steps_formula = "min(1, P-1)",
                                                 .bytes_formula = "N(P-1)/P",
                                                 .emit = emit};

}  // namespace isthmus::collectives
