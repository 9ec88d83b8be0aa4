// SPDX-License-Identifier: Apache-2.0
// Compressed allreduce through one rank: everybody sends its encoding to position 0, which adds without decoding and sends the sum back.
// As few messages as can be; but all bytes go through one rank, so this is for small buffers, few ranks, or a root that is a wide host.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  coded_allreduce(shape, b, 1, [&](const Coded& coded, Chunks segment) {
    const Chunk sum = on(coded.sums, segment[0]);
    star_sum(b, all, 0, coded, segment[0], sum);
    if (all.position > 0) return b.recv(0, sum);
    for (int32_t to = 1; to < all.size; ++to) b.send(to, sum);
  });
}

}  // namespace

extern const plan::Algorithm compressed_allreduce_root = {.name = "root",
                                                          .collective = Collective::allreduce,
                                                          .needs = {.coding = plan::Coding::sums},
                                                          .tunables = kTunables,
                                                          .steps_formula = "up to D + 2 min(1, P-1)",
                                                          .bytes_formula = "X + (I + W)(P-1)/P",
                                                          .emit = emit};

}  // namespace isthmus::collectives
