// SPDX-License-Identifier: Apache-2.0
// Recursive doubling allreduce: pairs at distance 1, 2, 4, ... exchange whole buffers. Fewest steps, so best for small buffers. Ranks
// beyond a power of two fold into their neighbour first and are handed the result last. Both of a pair add the same two operands,
// and a sum of two does not depend on their order, so all ranks hold the same bits.
#include <bit>

#include "collectives/phases.h"

namespace isthmus::collectives {

namespace {

/// The power of two of ranks that stay: of the first 2 * folded positions the even ones, then all others.
struct Stayers {
  int32_t folded;
  [[nodiscard]] int32_t number_of(int32_t position) const { return position < 2 * folded ? position / 2 : position - folded; }
  [[nodiscard]] int32_t at(int32_t number) const { return number < folded ? 2 * number : number + folded; }
};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  const Chunk in = b.in(0, b.cells()), out = b.out(0, b.cells());
  const int32_t staying = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(all.size)));
  const Stayers stayers = {.folded = all.size - staying};
  const bool pairs = all.position < 2 * stayers.folded;
  if (pairs && all.position % 2 == 1) {
    b.send(all.previous(), in);
    b.recv(all.previous(), out);
    return;
  }
  Chunk sum = in;
  const auto add = [&](int32_t peer) {
    b.recv_reduce(peer, out, sum);
    sum = out;
  };
  if (pairs) add(all.next());
  const int32_t number = stayers.number_of(all.position);
  for (int32_t distance = 1; distance < staying; distance *= 2) {
    const int32_t peer = stayers.at(number ^ distance);
    b.send(peer, sum);
    add(peer);
  }
  place(b, out, sum);
  b.complete(out);
  if (pairs) b.send(all.next(), out);
}

}  // namespace

extern const plan::Algorithm allreduce_recursive_doubling = {.name = "recursive_doubling",
                                                             .collective = Collective::allreduce,
                                                             .needs = {},
                                                             .tunables = {},
                                                             .steps_formula = "ceil(lg P) + F",
                                                             .bytes_formula = "N(K lg K + 2(P-K))/P",
                                                             .emit = emit};

}  // namespace isthmus::collectives
