// SPDX-License-Identifier: Apache-2.0
// Compressed direct allreduce: everybody sends its encoding of share p to p, p adds the encodings and sends the sum to everybody, who
// decodes it. Fewest bytes: a share goes out in the bits of one index and comes back in those of a sum; but each rank talks to
// all others at once.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  coded_allreduce(shape, b, all.size, [&](const Coded& coded, Chunks shares) {
    direct_sum(b, all, coded, shares);
    const std::vector<Chunk> sums = on(coded.sums, shares);
    direct_allgather(b, all, sums[static_cast<size_t>(all.position)], sums);
  });
}

}  // namespace

extern const plan::Algorithm compressed_allreduce_direct = {.name = "direct",
                                                            .collective = Collective::allreduce,
                                                            .needs = {.coding = plan::Coding::sums},
                                                            .tunables = kTunables,
                                                            .steps_formula = "up to D + 2 min(1, P-1)",
                                                            .bytes_formula = "X + (I + W)(P-1)/P",
                                                            .emit = emit};

}  // namespace isthmus::collectives
