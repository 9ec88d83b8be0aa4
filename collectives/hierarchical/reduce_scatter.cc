// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter over sites, at any number of levels: for each block one rank of each of the lowest sets adds up its set's elements, one of
// each wider set those sums, and so on up to the block's rank, which adds the sums of the widest sites; or these are added on a way around
// all sites. Every site sends its sum of a block once, however many ranks it has. With one site, or with all ranks apart, it is the direct
// algorithm.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}, {"leaders", 1, 64}, {"across", 0, 1}};
constexpr plan::Variant kVariants[] = {{Across::ring, "M", "N(P-1)/P"}};

/// The lowest level at which this rank's node has others, whose elements one of them adds up.
int32_t lowest_sums(const Tree& tree) {
  int32_t level = 1;
  while (level < tree.top() && tree.own_children(level) == 1) ++level;
  return level;
}

/// Whether sums of an owner's block come to this rank's site on the way around: to all but the first.
bool come_by(const Tree& tree, int32_t owner) {
  return tree.own_child(tree.top()) != (tree.node(tree.top() - 1, owner) + 1) % tree.own_children(tree.top());
}

void emit(const Shape& shape, Builder& b) {
  const Tree tree(shape);
  b.split(shape.segments, kCellAlign);
  const std::vector<Chunk> in = shares(b.in(0, b.cells()), shape.group.size);
  const Chunk& mine = in[static_cast<size_t>(tree.me())];
  const Chunk own = b.out(mine.begin, mine.end);
  if (shape.group.size == 1) place(b, own, mine);
  const bool around = shape.across == Across::ring && tree.top() > 1;
  const int32_t lowest = lowest_sums(tree);
  std::vector<Stream> blocks;
  for (int32_t position = 0; position < shape.group.size; ++position) {
    const Chunk& from = in[static_cast<size_t>(position)];
    const int32_t key = tree.key_of(position, shape.leaders), highest = tree.highest_home(key, position);
    Chunk to;
    if (position == tree.me()) {
      to = own;
    } else if (highest >= lowest || (around && highest == tree.top() - 1 && come_by(tree, position))) {
      to = b.scratch(from.begin, from.end);
    }
    blocks.push_back({.key = key, .owner = position, .highest = highest, .from = from, .to = to});
  }
  pipelined(
      shape.segments, [&](uint32_t at) { add_up(b, tree, 1, segment_of(blocks, at)); },
      [&](uint32_t at) {
        for (int32_t level = 2; level < tree.top(); ++level) add_up(b, tree, level, segment_of(blocks, at));
      },
      [&](uint32_t at) {
        if (tree.top() > 1) around ? add_around(b, tree, segment_of(blocks, at)) : add_up(b, tree, tree.top(), segment_of(blocks, at));
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
                                                         .emit = emit,
                                                         .variants = kVariants};

}  // namespace isthmus::collectives
