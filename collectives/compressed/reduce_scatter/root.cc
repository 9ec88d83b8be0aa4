// SPDX-License-Identifier: Apache-2.0
// Compressed reduce-scatter through one rank: everybody sends its encoding to position 0, which adds without decoding and sends each rank
// its block's sum. All bytes go through one rank: for small buffers, few ranks, or a root that is a wide host. Segments are parts of
// messages.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  Coded coded = open_coded(shape, b, shape.segments);
  join_scales_of_blocks(shape, b, coded);
  const bool is_root = all.position == 0;
  if (is_root) coded.sums = room_for(b, coded.in, all.size);
  for (const Chunk& part : cut(coded.in, shape.segments)) star_sum(b, all, 0, coded, part, on(coded.sums, part));
  const std::vector<Chunk> blocks = shares(coded.in, all.size);
  const Chunk& own = blocks[static_cast<size_t>(all.position)];
  for (int32_t to = 1; is_root && to < all.size; ++to) b.send(to, on(coded.sums, blocks[static_cast<size_t>(to)]));
  if (!is_root) b.recv(0, on(coded.sums, own));
  decode(b, all, coded, own);
}

}  // namespace

extern const plan::Algorithm compressed_reduce_scatter_root = {.name = "root",
                                                               .collective = Collective::reduce_scatter,
                                                               .needs = {.coding = plan::Coding::sums},
                                                               .tunables = kTunables,
                                                               .steps_formula = "up to D + 2 min(1, P-1)",
                                                               .bytes_formula = "X + (I + W/P)(P-1)/P",
                                                               .emit = emit};

}  // namespace isthmus::collectives
