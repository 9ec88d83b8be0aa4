// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter for codecs whose encodings cannot be added: everybody sends its encoding of block p to p, who decodes and adds, its own
// elements as they are. Nothing is encoded twice.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  b.split(shape.segments, shape.codec->block_elements);
  const std::vector<Chunk> blocks = shares(b.in(0, b.cells()), all.size);
  const Chunk encoded = room_for(b, b.in(0, b.cells()), 1);
  const Chunk& own = blocks[static_cast<size_t>(all.position)];
  for (uint32_t segment = 0; segment < shape.segments; ++segment) {
    const std::vector<Chunk> cells = cells_of(blocks, segment);
    decoded_sum(b, all, cells, encoded, cell_of(b.out(own.begin, own.end), segment));
  }
}

}  // namespace

extern const plan::Algorithm compressed_reduce_scatter_one_shot = {.name = "one_shot",
                                                                   .collective = Collective::reduce_scatter,
                                                                   .needs = {.coding = plan::Coding::decoding},
                                                                   .tunables = kTunables,
                                                                   .steps_formula = "min(1, P-1)",
                                                                   .bytes_formula = "I(P-1)/P",
                                                                   .emit = emit};

}  // namespace isthmus::collectives
