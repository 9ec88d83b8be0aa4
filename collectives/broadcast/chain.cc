// SPDX-License-Identifier: Apache-2.0
// Pipelined chain broadcast: segments travel from the root from neighbour to neighbour. Nobody sends the buffer more than once,
// so with enough segments it takes little more than one buffer's time at any rank count.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 256}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(shape.segments, kCellAlign);
  const bool is_root = all.position == shape.root, is_last = all.next() == shape.root;
  const Chunk out = b.out(0, b.cells()), held = is_root ? b.in(0, b.cells()) : out;
  for (uint32_t cell = 0; cell < b.cells(); ++cell) {
    if (!is_root) b.recv(all.previous(), cell_of(out, cell));
    if (!is_last) b.send(all.next(), cell_of(held, cell));
  }
  place(b, out, held);
}

}  // namespace

extern const plan::Algorithm broadcast_chain = {.name = "chain",
                                                .collective = Collective::broadcast,
                                                .needs = {},
                                                .tunables = kTunables,
                                                .steps_formula = "P-1",
                                                .bytes_formula = "N(P-1)/P",
                                                .emit = emit};

}  // namespace isthmus::collectives
