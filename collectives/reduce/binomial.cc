// SPDX-License-Identifier: Apache-2.0
// Binomial reduce: partial sums of whole buffers move towards the root over distances 1, 2, 4, ... Fewest steps, so best for small
// buffers. Ranks that pass sums on hold them in scratch, because their receive buffer is not theirs to write.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  const int32_t from_root = all.wrap(all.position - shape.root);  // number in the tree; the root is 0
  Chunk sum = b.in(0, b.cells()), home;
  for (int32_t distance = 1; distance < all.size; distance *= 2) {
    if (from_root & distance) return b.send(all.wrap(all.position - distance), sum);
    if (from_root + distance >= all.size) continue;
    if (!home.valid()) home = from_root == 0 ? b.out(0, b.cells()) : b.scratch(0, b.cells());
    b.recv_reduce(all.wrap(all.position + distance), home, sum);
    sum = home;
  }
  place(b, b.out(0, b.cells()), sum);
  b.complete(b.out(0, b.cells()));
}

}  // namespace

extern const plan::Algorithm reduce_binomial = {.name = "binomial",
                                                .collective = Collective::reduce,
                                                .needs = {},
                                                .tunables = {},
                                                .steps_formula = "up to ceil(lg P)",
                                                .bytes_formula = "N(P-1)/P",
                                                .emit = emit};

}  // namespace isthmus::collectives
