// SPDX-License-Identifier: Apache-2.0
// Compressed halving reduce-scatter: recursive halving adds encodings, whose bits grow with each step; each rank decodes its block. About a
// third more bytes than direct exchange, but logarithmically many messages, for any rank count. Segments are parts of messages.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const Coded coded = open_coded(shape, b, shape.segments);
  join_scales_of_blocks(shape, b, coded);
  const std::vector<Chunk> blocks = shares(coded.in, all.size);
  halving_sum(b, all, growing_halvings(all, Pairing::far), coded, blocks, shape.segments);
  decode(b, all, coded, blocks[static_cast<size_t>(all.position)]);
}

}  // namespace

extern const plan::Algorithm compressed_reduce_scatter_halving = {.name = "halving",
                                                                  .collective = Collective::reduce_scatter,
                                                                  .needs = {.coding = plan::Coding::sums},
                                                                  .tunables = kTunables,
                                                                  .steps_formula = "up to D + ceil(lg P)",
                                                                  .bytes_formula = "X + H",
                                                                  .emit = emit};

}  // namespace isthmus::collectives
