// SPDX-License-Identifier: Apache-2.0
// Broadcast over sites, at any number of levels: the chain's pipeline in an order that goes through one site after the other, within them
// through one host after the other, and so on, beginning with the root's. The buffer comes to each site once, and leaves it at most once,
// wherever the root and the ranks are.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 256}};

void emit(const Shape& shape, Builder& b) {
  b.split(shape.segments, kCellAlign);
  const Neighbours chain = Tree(shape).chain_from(shape.root);
  const Chunk out = b.out(0, b.cells()), in = chain.before < 0 ? b.in(0, b.cells()) : Chunk{};
  chain_broadcast(b, chain, in, out);
}

}  // namespace

extern const plan::Algorithm broadcast_hierarchy = {.name = "hierarchy",
                                                    .collective = Collective::broadcast,
                                                    .needs = {.by_site = true},
                                                    .tunables = kTunables,
                                                    .steps_formula = "P-1",
                                                    .bytes_formula = "N(P-1)/P",
                                                    .emit = emit};

}  // namespace isthmus::collectives
