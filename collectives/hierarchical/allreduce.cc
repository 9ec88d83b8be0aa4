// SPDX-License-Identifier: Apache-2.0
// Allreduce over sites, at any number of levels (hosts, buildings, ...): shares are summed level by level, each share at another rank; of
// the widest sites one rank for each share, its leader there, has the site's sum; the leaders of a share exchange their sums; then
// everybody is told, level by level. However many ranks a site has and however they lie among the ranks, it sends its sum once and receives
// the others' once: the leaders exchange directly, each adding up a part, or in a ring; between two sites whole sums cross, one message in
// a row and as many bytes as parts there and back. Where that takes less time, leaders of more sites exchange whole sums, too: in one shot,
// or by recursive doubling. With one site, or with all ranks apart, it is the direct algorithm, or the one that the leaders' exchange
// names.
#include "collectives/tree.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}, {"leaders", 1, 64}, {"across", 0, 3}};
constexpr plan::Variant kVariants[] = {{Across::ring, "2 + 2(M-1)", "2N(P-1)/P"},
                                       {Across::one_shot, "3", "N(2(P-M) + M(M-1))/P"},
                                       {Across::recursive_doubling, "up to 2 + ceil(lg M) + G", "N(2(P-M) + L lg L + 2(M-L))/P"}};

/// A share has so many cells a segment: one for each leader who adds, or one that all of them add.
int32_t parts_of(Across across, int32_t sites) { return across == Across::ring || (across == Across::direct && sites > 2) ? sites : 1; }

/// The leader of a share: from its site's sum to everybody's, at all leaders.
void exchange_share(Builder& b, Across across, const Group& leaders, const Chunk& partial, const Chunk& out) {
  if (across == Across::recursive_doubling) return recursive_doubling(b, leaders, partial, out);
  if (parts_of(across, leaders.size) == 1) return one_shot(b, leaders, partial, out);
  const std::vector<Chunk> parts = shares(out, leaders.size), partials = on(partial, parts);
  const Chunk& own = parts[static_cast<size_t>(leaders.position)];
  const bool ring = across == Across::ring;
  ring ? ring_reduce_scatter(b, leaders, partials, parts) : direct_reduce_scatter(b, leaders, partials, own);
  b.complete(own);
  ring ? ring_allgather(b, leaders, own, parts) : direct_allgather(b, leaders, own, parts);
}

void exchange(Builder& b, const Tree& tree, Across across, std::span<const Stream> shares) {
  const int32_t sites = tree.top() - 1;
  b.level(static_cast<uint8_t>(sites));
  for (const Stream& share : shares) {
    if (share.highest < sites) continue;
    const std::vector<int32_t> homes = tree.homes(tree.top(), share.key);
    const Group leaders = {.ranks = homes, .size = tree.own_children(tree.top()), .position = tree.own_child(tree.top())};
    exchange_share(b, across, leaders, held_of(b, share), share.to);
  }
  b.level(0);
}

void emit(const Shape& shape, Builder& b) {
  const Tree tree(shape);
  const uint32_t leaders = shape.leaders > 0 ? shape.leaders : static_cast<uint32_t>(tree.smallest_site());
  const uint32_t cells = leaders * static_cast<uint32_t>(parts_of(shape.across, tree.own_children(tree.top())));
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
      [&](uint32_t at) { exchange(b, tree, shape.across, segment(at)); },
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
                                                    .emit = emit,
                                                    .variants = kVariants};

}  // namespace isthmus::collectives
