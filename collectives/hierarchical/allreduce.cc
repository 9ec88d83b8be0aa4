// SPDX-License-Identifier: Apache-2.0
// Allreduce over sites, at any number of levels (hosts, buildings, ...): shares are summed level by level, each share at another rank; of
// the widest sites one rank for each share, its leader there, has the site's sum; the leaders of a share exchange their sums directly; then
// everybody is told, level by level. Every site sends its sum once and receives the others' once, however many ranks it has and however
// they lie among the ranks. Between two sites whole sums cross, one message in a row and as many bytes as parts there and back; among more
// each leader adds up a part. With one site, or with all ranks apart, it is the direct algorithm.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}, {"leaders", 1, 64}};

/// A share has so many cells a segment: one for each leader who adds.
int32_t parts_of(int32_t sites) { return sites == 2 ? 1 : sites; }

/// The leader of a share: from its site's sum to everybody's, at all leaders.
void exchange_share(Builder& b, const Group& across, const Chunk& partial, const Chunk& out) {
  if (across.size == 2) return one_shot(b, across, partial, out);
  const std::vector<Chunk> parts = shares(out, across.size);
  const Chunk& own = parts[static_cast<size_t>(across.position)];
  direct_reduce_scatter(b, across, on(partial, parts), own);
  b.complete(own);
  direct_allgather(b, across, own, parts);
}

void exchange(Builder& b, const Tree& tree, std::span<const Stream> shares) {
  const int32_t sites = tree.top() - 1;
  b.level(static_cast<uint8_t>(sites));
  for (const Stream& share : shares) {
    if (share.highest < sites) continue;
    const std::vector<int32_t> leaders = tree.homes(tree.top(), share.key);
    const Group across = {.ranks = leaders, .size = tree.own_children(tree.top()), .position = tree.own_child(tree.top())};
    exchange_share(b, across, held_of(b, share), share.to);
  }
  b.level(0);
}

void emit(const Shape& shape, Builder& b) {
  const Tree tree(shape);
  const uint32_t leaders = shape.leaders > 0 ? shape.leaders : static_cast<uint32_t>(tree.smallest_site());
  const uint32_t cells = leaders * static_cast<uint32_t>(parts_of(tree.own_children(tree.top())));
  b.split(cells * shape.segments, kCellAlign);
  const std::vector<Chunk> in = shares(b.in(0, b.cells()), static_cast<int32_t>(leaders * shape.segments));
  const std::vector<Chunk> out = shares(b.out(0, b.cells()), static_cast<int32_t>(leaders * shape.segments));
  std::vector<Stream> streams;
  for (uint32_t at = 0; at < in.size(); ++at) {
    const auto share = static_cast<int32_t>(at % leaders);
    streams.push_back({.key = share, .highest = tree.highest_home(share), .from = in[at], .to = out[at]});
  }
  const auto segment = [&](uint32_t at) { return std::span(streams).subspan(size_t{at} * leaders, leaders); };
  pipelined(
      shape.segments,
      [&](uint32_t at) {
        for (int32_t level = 1; level < tree.top(); ++level) add_up(b, tree, level, segment(at));
      },
      [&](uint32_t at) { exchange(b, tree, segment(at)); },
      [&](uint32_t at) {
        for (int32_t level = tree.top() - 1; level > 0; --level) tell_down(b, tree, level, segment(at));
      });
}

}  // namespace

extern const plan::Algorithm allreduce_hierarchy = {.name = "hierarchy",
                                                    .collective = Collective::allreduce,
                                                    .needs = {.by_site = true},
                                                    .tunables = kTunables,
                                                    .steps_formula = "2 + min(2, M-1)",
                                                    .bytes_formula = "2N(P-1)/P",
                                                    .emit = emit};

}  // namespace isthmus::collectives
