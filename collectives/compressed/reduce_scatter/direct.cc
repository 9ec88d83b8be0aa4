// SPDX-License-Identifier: Apache-2.0
// Compressed direct reduce-scatter: everybody sends its encoding of block p to p, who adds the encodings and decodes the sum. Fewest
// bytes; each rank talks to all others at once.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  coded_reduce_scatter(shape, b, [&](const Coded& coded, Chunks shares) { direct_sum(b, all, coded, shares); });
}

}  // namespace

extern const plan::Algorithm compressed_reduce_scatter_direct = {.name = "direct",
                                                                 .collective = Collective::reduce_scatter,
                                                                 .needs = {.coding = plan::Coding::sums},
                                                                 .tunables = kTunables,
                                                                 .steps_formula = "up to D + min(1, P-1)",
                                                                 .bytes_formula = "X + I(P-1)/P",
                                                                 .emit = emit};

}  // namespace isthmus::collectives
