// SPDX-License-Identifier: Apache-2.0
// Halving-doubling allreduce (Rabenseifner's, here for any rank count): recursive halving reduces, recursive doubling gathers on the
// same way back. Fewest bytes in logarithmically many steps; neighbours exchange the largest halves, so with ranks in site order
// most bytes stay near. Segments keep near and far lines busy at the same time.
#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 16}};

/// One segment by itself: the grid's cells [begin, begin + P).
void emit_segment(const Group& all, const Halvings& path, Builder& b, uint32_t begin) {
  const uint32_t end = begin + static_cast<uint32_t>(all.size);
  const Chunk whole = b.out(begin, end);
  const auto in = shares(b.in(begin, end), all.size), out = shares(whole, all.size);
  const Chunk& own = out[static_cast<size_t>(path.share)];
  halving_reduce_scatter(b, all, path, in, whole, own);
  b.complete(own);
  doubling_allgather(b, all, path, own, out);
}

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  const auto ranks = static_cast<uint32_t>(all.size);
  b.split(ranks * shape.segments, kCellAlign);
  const Halvings path = halvings(all, Pairing::near);
  for (uint32_t segment = 0; segment < shape.segments; ++segment) emit_segment(all, path, b, segment * ranks);
}

}  // namespace

extern const plan::Algorithm allreduce_halving_doubling = {.name = "halving_doubling",
                                                           .collective = Collective::allreduce,
                                                           .needs = {},
                                                           .tunables = kTunables,
                                                           .steps_formula = "2 ceil(lg P)",
                                                           .bytes_formula = "2N(P-1)/P",
                                                           .emit = emit};

}  // namespace isthmus::collectives
