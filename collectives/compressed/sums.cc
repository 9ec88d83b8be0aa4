// SPDX-License-Identifier: Apache-2.0
// How sums of encodings come together: directly, around a ring, at one rank. See phases.h; halving_sum is in halving.cc.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

Chunk room_for(Builder& b, const Chunk& cells, int32_t summands) {
  return b.scratch(cells.begin, cells.end, plan::Layout::encoded, static_cast<uint16_t>(summands));
}

void direct_sum(Builder& b, const Group& group, const Coded& coded, Chunks shares) {
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const int32_t to = group.wrap(group.position + distance);
    const Chunk& share = shares[static_cast<size_t>(to)];
    encode(b, coded, share);
    b.send(group.rank_at(to), on(coded.indices, share));
  }
  const Chunk& own = shares[static_cast<size_t>(group.position)];
  star_sum(b, group, group.position, coded, own, on(coded.sums, own));
}

Chunk star_sum(Builder& b, const Group& group, int32_t home, const Coded& coded, const Chunk& cells, const Chunk& sum) {
  encode(b, coded, cells);
  Chunk held = on(coded.indices, cells);
  if (group.position != home) {
    b.send(group.rank_at(home), held);
    return {};
  }
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const Chunk arrived = room_for(b, cells, 1);
    b.recv(group.rank_at(group.wrap(home - distance)), arrived);
    b.accumulate(sum, held, arrived);
    held = sum;
  }
  return held;
}

void ring_sum(Builder& b, const Group& group, const Coded& coded, Chunks shares) {
  const int32_t right = group.rank_at(group.next()), left = group.rank_at(group.previous());
  const Chunk& first = shares[static_cast<size_t>(group.previous())];
  encode(b, coded, first);
  Chunk going = on(coded.indices, first);
  for (int32_t step = 1; step < group.size; ++step) {
    b.send(right, going);
    const Chunk& share = shares[static_cast<size_t>(group.wrap(group.position - step - 1))];
    encode(b, coded, share);
    const Chunk arrived = room_for(b, share, step);
    b.recv(left, arrived);
    going = step + 1 == group.size ? on(coded.sums, share) : room_for(b, share, step + 1);
    b.accumulate(going, arrived, on(coded.indices, share));
  }
}

}  // namespace isthmus::collectives
