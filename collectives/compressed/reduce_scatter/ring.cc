// SPDX-License-Identifier: Apache-2.0
// Compressed ring reduce-scatter: partial sums of encodings of a block go once around the ring, grow by a bit whenever their number has
// doubled, and are decoded by the block's rank. Only neighbours talk.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  coded_reduce_scatter(shape, b, [&](const Coded& coded, Chunks shares) { ring_sum(b, all, coded, shares); });
}

}  // namespace

extern const plan::Algorithm compressed_reduce_scatter_ring = {.name = "ring",
                                                               .collective = Collective::reduce_scatter,
                                                               .needs = {.coding = plan::Coding::sums},
                                                               .tunables = kTunables,
                                                               .steps_formula = "up to D + P-1",
                                                               .bytes_formula = "X + R",
                                                               .emit = emit};

}  // namespace isthmus::collectives
