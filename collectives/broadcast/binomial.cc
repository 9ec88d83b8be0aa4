// SPDX-License-Identifier: Apache-2.0
// Binomial broadcast: whoever has the buffer hands it to the rank half the remaining distance away. Fewest steps, so best for small
// buffers; whole buffers travel, so the root sends lg P of them.
#include <bit>

#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  const int32_t from_root = all.wrap(all.position - shape.root);  // number in the tree; the root is 0
  const Chunk out = b.out(0, b.cells());
  Chunk held = out;
  auto reach = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(all.size)));
  if (from_root == 0) {
    held = b.in(0, b.cells());
  } else {
    reach = from_root & -from_root;
    b.recv(all.wrap(all.position - reach), out);
  }
  for (int32_t distance = reach / 2; distance > 0; distance /= 2) {
    if (from_root + distance < all.size) b.send(all.wrap(all.position + distance), held);
  }
  place(b, out, held);
}

}  // namespace

extern const plan::Algorithm broadcast_binomial = {.name = "binomial",
                                                   .collective = Collective::broadcast,
                                                   .needs = {},
                                                   .tunables = {},
                                                   .steps_formula = "up to ceil(lg P)",
                                                   .bytes_formula = "N(P-1)/P",
                                                   .emit = emit};

}  // namespace isthmus::collectives
