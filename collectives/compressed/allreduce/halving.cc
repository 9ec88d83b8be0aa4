// SPDX-License-Identifier: Apache-2.0
// Compressed halving allreduce: recursive halving adds encodings, whose bits grow with each step, recursive doubling brings the sums
// back; then everybody decodes. About a third more bytes than direct exchange, but logarithmically many messages, for any rank count.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  const GrowingHalvings halvings = growing_halvings(all, Pairing::near);
  coded_allreduce(shape, b, all.size, [&](const Coded& coded, Chunks shares) {
    halving_sum(b, all, halvings, coded, shares, 1);
    const std::vector<Chunk> sums = on(coded.sums, shares);
    doubling_allgather(b, all, halvings.path, sums[static_cast<size_t>(halvings.path.share)], sums);
  });
}

}  // namespace

extern const plan::Algorithm compressed_allreduce_halving = {.name = "halving",
                                                             .collective = Collective::allreduce,
                                                             .needs = {.coding = plan::Coding::sums},
                                                             .tunables = kTunables,
                                                             .steps_formula = "up to D + 2 ceil(lg P)",
                                                             .bytes_formula = "X + H + W(P-1)/P",
                                                             .emit = emit};

}  // namespace isthmus::collectives
