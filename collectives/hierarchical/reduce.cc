// SPDX-License-Identifier: Apache-2.0
// Reduce over sites, at any number of levels: the chain's pipeline in an order that goes through one site after the other, within them
// through one host after the other, and so on, and ends in the root's. A sum leaves each site once, wherever the root and the ranks are.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 256}};

void emit(const Shape& shape, Builder& b) {
  b.split(shape.segments, kCellAlign);
  const Neighbours chain = Tree(shape).chain_from(shape.root);
  chain_reduce(b, chain, b.in(0, b.cells()), room_for_chain(b, chain));
}

}  // namespace

extern const plan::Algorithm reduce_hierarchy = {.name = "hierarchy",
                                                 .collective = Collective::reduce,
                                                 .needs = {.by_site = true},
                                                 .tunables = kTunables,
                                                 .steps_formula = "P-1",
                                                 .bytes_formula = "N(P-1)/P",
                                                 .emit = emit};

}  // namespace isthmus::collectives
