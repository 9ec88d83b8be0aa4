// SPDX-License-Identifier: Apache-2.0
// Compressed ring allreduce: partial sums of encodings go around the ring and grow by a bit whenever their number has doubled; a second
// round brings the sums everywhere, where they are decoded. Only neighbours talk; more bytes than all others but no error from hop to hop.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  coded_allreduce(shape, b, all.size, [&](const Coded& coded, Chunks shares) {
    ring_sum(b, all, coded, shares);
    const std::vector<Chunk> sums = on(coded.sums, shares);
    ring_allgather(b, all, sums[static_cast<size_t>(all.position)], sums);
  });
}

}  // namespace

extern const plan::Algorithm compressed_allreduce_ring = {.name = "ring",
                                                          .collective = Collective::allreduce,
                                                          .needs = {.coding = plan::Coding::sums},
                                                          .tunables = kTunables,
                                                          .steps_formula = "up to D + 2(P-1)",
                                                          .bytes_formula = "X + R + W(P-1)/P",
                                                          .emit = emit};

}  // namespace isthmus::collectives
