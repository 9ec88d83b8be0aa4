// SPDX-License-Identifier: Apache-2.0
// Allgather over sites, at any number of levels: each rank sends its block to one rank of each of the other widest sites, of each of the
// others in its own site, and so on down to its neighbours; who gets a block from outside does so within. Or blocks go around all sites,
// from one to the next. Every block comes to a site once, however many ranks it has. With one site, or with all ranks apart, it is the
// direct algorithm.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}, {"leaders", 1, 64}, {"across", 0, 1}};
constexpr plan::Variant kVariants[] = {{Across::ring, "M", "N(P-1)/P"}};

void emit(const Shape& shape, Builder& b) {
  const Tree tree(shape);
  const bool around = shape.across == Across::ring && tree.top() > 1;
  b.split(shape.segments, kCellAlign);
  const std::vector<Chunk> out = shares(b.out(0, b.cells()), shape.group.size);
  const Chunk own = own_block(shape, b);
  std::vector<Stream> blocks;
  for (int32_t position = 0; position < shape.group.size; ++position) {
    const Chunk from = position == tree.me() ? own : Chunk{};
    const int32_t key = tree.key_of(position, shape.leaders), highest = tree.highest_home(key, position);
    blocks.push_back({.key = key, .owner = position, .highest = highest, .from = from, .to = out[static_cast<size_t>(position)]});
  }
  // What crosses leaves first, since that takes longest.
  pipelined(
      shape.segments,
      [&](uint32_t at) { around ? tell_around(b, tree, segment_of(blocks, at)) : tell_down(b, tree, tree.top(), segment_of(blocks, at)); },
      [&](uint32_t at) {
        for (int32_t level = tree.top() - 1; level > 1; --level) tell_down(b, tree, level, segment_of(blocks, at));
      },
      [&](uint32_t at) {
        if (tree.top() > 1) tell_down(b, tree, 1, segment_of(blocks, at));
        place(b, cell_of(out[static_cast<size_t>(tree.me())], at), cell_of(own, at));
      });
}

}  // namespace

extern const plan::Algorithm allgather_hierarchy = {.name = "hierarchy",
                                                    .collective = Collective::allgather,
                                                    .needs = {.by_site = true},
                                                    .tunables = kTunables,
                                                    .steps_formula = "2",
                                                    .bytes_formula = "N(P-1)/P",
                                                    .emit = emit,
                                                    .variants = kVariants};

}  // namespace isthmus::collectives
