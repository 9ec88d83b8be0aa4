// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter over sites, at any number of levels: for each block one rank of each of the lowest sets adds up its set's elements, one of
// each wider set those sums, and so on up to the block's rank, which adds the sums of the widest sites. Every site sends its sum of a block
// once, however many ranks it has. With one site, or with all ranks apart, it is the direct algorithm.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}, {"leaders", 1, 64}};

/// Whether this rank adds up elements of another rank's block.
bool adds(const Tree& tree, int32_t position, uint32_t leaders) {
  int32_t level = 1;
  while (level < tree.top() && tree.own_children(level) == 1) ++level;
  if (level == tree.top()) return false;
  return tree.home(level, tree.node(level, tree.me()), tree.key_of(position, leaders), position) == tree.me();
}

void emit(const Shape& shape, Builder& b) {
  const Tree tree(shape);
  b.split(shape.segments, kCellAlign);
  const std::vector<Chunk> in = shares(b.in(0, b.cells()), shape.group.size);
  const Chunk& mine = in[static_cast<size_t>(tree.me())];
  const Chunk own = b.out(mine.begin, mine.end);
  if (shape.group.size == 1) place(b, own, mine);
  std::vector<Stream> blocks;
  for (int32_t position = 0; position < shape.group.size; ++position) {
    const Chunk& from = in[static_cast<size_t>(position)];
    Chunk to;
    if (position == tree.me()) {
      to = own;
    } else if (adds(tree, position, shape.leaders)) {
      to = b.scratch(from.begin, from.end);
    }
    blocks.push_back({.key = tree.key_of(position, shape.leaders), .owner = position, .from = from, .to = to});
  }
  pipelined(
      shape.segments, [&](uint32_t at) { add_up(b, tree, 1, segment_of(blocks, at)); },
      [&](uint32_t at) {
        for (int32_t level = 2; level < tree.top(); ++level) add_up(b, tree, level, segment_of(blocks, at));
      },
      [&](uint32_t at) {
        if (tree.top() > 1) add_up(b, tree, tree.top(), segment_of(blocks, at));
        b.complete(cell_of(own, at));
      });
}

}  // namespace

extern const plan::Algorithm reduce_scatter_hierarchy = {.name = "hierarchy",
                                                         .collective = Collective::reduce_scatter,
                                                         .needs = {.by_site = true},
                                                         .tunables = kTunables,
                                                         .steps_formula = "2",
                                                         .bytes_formula = "N(P-1)/P",
                                                         .emit = emit};

}  // namespace isthmus::collectives
