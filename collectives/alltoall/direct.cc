// SPDX-License-Identifier: Apache-2.0
// Direct all-to-all: everybody sends everybody its block. One message in a row and fewest bytes. Partners rotate, so that no rank is
// everybody's first.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  const std::vector<Chunk> in = shares(b.in(0, b.cells()), all.size), out = shares(b.out(0, b.cells()), all.size);
  const auto me = static_cast<size_t>(all.position);
  b.copy(out[me], in[me]);
  exchange_blocks(b, all, in, out);
}

}  // namespace

extern const plan::Algorithm alltoall_direct = {.name = "direct",
                                                .collective = Collective::alltoall,
                                                .needs = {},
                                                .tunables = {},
                                                .steps_formula = "min(1, P-1)",
                                                .bytes_formula = "N(P-1)/P",
                                                .emit = emit};

}  // namespace isthmus::collectives
