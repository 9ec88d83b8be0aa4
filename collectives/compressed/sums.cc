// SPDX-License-Identifier: Apache-2.0
// How sums of encodings come together. See phases.h.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

/// Room for `summands` encodings of a share, for what arrives and for what it becomes.
Chunk room_for(Builder& b, const Chunk& share, int32_t summands) {
  return b.scratch(share.begin, share.end, plan::Layout::encoded, static_cast<uint16_t>(summands));
}

}  // namespace

void direct_sum(Builder& b, const Group& group, const Coded& coded, Chunks shares) {
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const int32_t to = group.wrap(group.position + distance);
    const Chunk& share = shares[static_cast<size_t>(to)];
    encode(b, coded, share);
    b.send(group.rank_at(to), on(coded.indices, share));
  }
  const Chunk& own = shares[static_cast<size_t>(group.position)];
  encode(b, coded, own);
  const Chunk sum = on(coded.sums, own);
  Chunk held = on(coded.indices, own);
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const Chunk arrived = room_for(b, own, 1);
    b.recv(group.rank_at(group.wrap(group.position - distance)), arrived);
    b.accumulate(sum, held, arrived);
    held = sum;
  }
}

}  // namespace isthmus::collectives
