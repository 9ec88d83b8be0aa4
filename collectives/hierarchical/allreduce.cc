// SPDX-License-Identifier: Apache-2.0
// Allreduce over sites: each site adds its ranks' elements at its leaders, one for each share; the leaders of a share exchange their sums
// directly; then they tell their sites. Every site sends its sum once and receives the others' once, however many ranks it has and however
// they lie among the ranks. Between two sites whole sums cross, one message in a row and as many bytes as parts there and back; among more
// each leader adds up a part. With one site, or with all ranks apart, it is the direct algorithm.
#include "collectives/sites.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

/// A share has so many cells a segment: one for each leader who adds.
int32_t parts_of(const Sites& sites) { return sites.members.size() == 2 ? 1 : static_cast<int32_t>(sites.members.size()); }

/// One segment, by share.
struct Segment {
  std::vector<Chunk> in, out;
};

/// Everybody sends its elements of each share to the share's leader in its site, who adds them in `out`, in the order of positions.
void gather(Builder& b, const Sites& sites, const Segment& segment) {
  const Group inside = sites.inside();
  if (inside.size == 1) return;
  for (int32_t distance = 1; distance <= sites.leaders; ++distance) {
    const int32_t home = (sites.place + distance) % sites.leaders;
    const auto share = static_cast<size_t>(home);
    star_reduce(b, inside, home, segment.in[share], segment.out[share]);
  }
}

/// The leader of a share: from its site's sum to everybody's, at all leaders.
void exchange(Builder& b, const Sites& sites, const Segment& segment) {
  if (!sites.leads()) return;
  const auto share = static_cast<size_t>(sites.place);
  const Chunk& out = segment.out[share];
  const Chunk& partial = sites.size_of(sites.own) == 1 ? segment.in[share] : out;
  const std::vector<int32_t> leaders = sites.counterparts();
  const Group across = sites.across(leaders);
  b.level(1);
  if (across.size == 2) {
    one_shot(b, across, partial, out);
  } else {
    const std::vector<Chunk> parts = shares(out, across.size);
    const Chunk& own = parts[sites.own];
    direct_reduce_scatter(b, across, on(partial, parts), own);
    b.complete(own);
    direct_allgather(b, across, own, parts);
  }
  b.level(0);
}

/// The leaders tell their site.
void tell(Builder& b, const Sites& sites, const Segment& segment) {
  const Group inside = sites.inside();
  if (sites.leads()) star_broadcast(b, inside, sites.place, segment.out[static_cast<size_t>(sites.place)]);
  for (int32_t home = 0; home < sites.leaders; ++home) {
    if (home != sites.place) star_broadcast(b, inside, home, segment.out[static_cast<size_t>(home)]);
  }
}

void emit(const Shape& shape, Builder& b) {
  const Sites sites = sites_of(shape);
  const auto cells = static_cast<uint32_t>(sites.leaders * parts_of(sites));
  b.split(cells * shape.segments, kCellAlign);
  const Chunk in = b.in(0, b.cells()), out = b.out(0, b.cells());
  std::vector<Segment> segments;
  for (uint32_t at = 0; at < shape.segments; ++at) {
    const auto of = [&](const Chunk& whole) { return shares(b.part(whole, at * cells, (at + 1) * cells), sites.leaders); };
    segments.push_back({.in = of(in), .out = of(out)});
  }
  pipelined(
      shape.segments, [&](uint32_t at) { gather(b, sites, segments[at]); }, [&](uint32_t at) { exchange(b, sites, segments[at]); },
      [&](uint32_t at) { tell(b, sites, segments[at]); });
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
