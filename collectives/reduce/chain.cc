// SPDX-License-Identifier: Apache-2.0
// Pipelined chain reduce: partial sums of segments move from neighbour to neighbour towards the root. Nobody sends the buffer more
// than once, so with enough segments it takes little more than one buffer's time at any rank count.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 256}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  b.split(shape.segments, kCellAlign);
  const bool is_root = all.position == shape.root, is_end = all.next() == shape.root;  // sums start at the end
  const Chunk in = b.in(0, b.cells());
  const Chunk sum = is_root ? b.out(0, b.cells()) : is_end ? in : b.scratch(0, b.cells());
  for (uint32_t cell = 0; cell < b.cells(); ++cell) {
    if (!is_end) b.recv_reduce(all.next(), cell_of(sum, cell), cell_of(in, cell));
    if (!is_root) b.send(all.previous(), cell_of(sum, cell));
  }
  if (!is_root) return;
  if (is_end) place(b, sum, in);
  complete_cells(b, sum);
}

}  // namespace

extern const plan::Algorithm reduce_chain = {.name = "chain",
                                             .collective = Collective::reduce,
                                             .needs = {},
                                             .tunables = kTunables,
                                             .steps_formula = "P-1",
                                             .bytes_formula = "N(P-1)/P",
                                             .emit = emit};

}  // namespace isthmus::collectives
