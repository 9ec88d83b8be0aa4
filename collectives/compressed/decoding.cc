// SPDX-License-Identifier: Apache-2.0
// Sums of what encodings decode to, for codecs whose encodings cannot be added. See phases.h.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

/// result = the contributions in the order of positions: what the others' encodings decode to, and `mine`, which needs none.
void add_in_order(Builder& b, const Group& group, const Chunk& mine, Chunks arrived, const Chunk& result) {
  const auto decoded = [&](const Chunk& to, int32_t at) { b.decode(to, arrived[static_cast<size_t>(at)], Chunk{}, 1); };
  Chunk held = mine;
  if (group.position > 0) {
    held = b.scratch(mine.begin, mine.end);  // not `result`, which may be where `mine` lies
    decoded(held, 0);
  }
  const Chunk next[] = {b.scratch(mine.begin, mine.end), b.scratch(mine.begin, mine.end)};
  for (int32_t at = 1; at < group.size; ++at) {
    const Chunk& sum = at < group.position ? held : result;
    if (at == group.position) {
      b.reduce(sum, held, mine);
    } else {
      decoded(next[at % 2], at);
      b.reduce(sum, held, next[at % 2]);
    }
    held = sum;
  }
  b.complete(result);
}

}  // namespace

void decoded_sum(Builder& b, const Group& group, Chunks shares, const Chunk& encoded, const Chunk& result) {
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const int32_t to = group.wrap(group.position + distance);
    const Chunk& share = shares[static_cast<size_t>(to)];
    b.encode(on(encoded, share), share, Chunk{}, Chunk{});
    b.send(group.rank_at(to), on(encoded, share));
  }
  const Chunk& mine = shares[static_cast<size_t>(group.position)];
  std::vector<Chunk> arrived;
  arrived.reserve(shares.size());
  for (int32_t at = 0; at < group.size; ++at) {
    arrived.push_back(room_for(b, mine, 1));
    if (at != group.position) b.recv(group.rank_at(at), arrived.back());
  }
  add_in_order(b, group, mine, arrived, result);
}

}  // namespace isthmus::collectives
