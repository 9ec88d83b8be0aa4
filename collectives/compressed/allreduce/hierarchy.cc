// SPDX-License-Identifier: Apache-2.0
// Compressed allreduce over sites: each site adds its encodings at its leaders, one for each share; the leaders of a share exchange their
// sums directly, each adding up a part of it; then they tell their sites. Every site sends its sum once, and receives the total once,
// however many ranks it has. With one site it is the direct algorithm.
#include "collectives/compressed/sites.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

/// The leader of a share: from its site's sum to everybody's, at all leaders.
void exchange(Builder& b, const Sites& sites, const Coded& coded, const Chunk& share, const Chunk& partial) {
  const std::vector<int32_t> leaders = sites.counterparts();
  const Group across = sites.across(leaders);
  const std::vector<Chunk> parts = shares(share, across.size);
  b.level(1);
  for (int32_t distance = 1; distance < across.size; ++distance) {
    const int32_t to = across.wrap(across.position + distance);
    b.send(across.rank_at(to), on(partial, parts[static_cast<size_t>(to)]));
  }
  const Chunk& own = parts[sites.own];
  add_across(b, sites, sites.place, coded, own, on(partial, own));
  direct_allgather(b, across, on(coded.sums, own), on(coded.sums, parts));
  b.level(0);
}

void sum(Builder& b, const Sites& sites, const Coded& coded, Chunks shares) {
  const Group inside = sites.inside();
  for (int32_t distance = 1; distance <= sites.leaders; ++distance) {
    const int32_t home = (sites.place + distance) % sites.leaders;
    const Chunk& share = shares[static_cast<size_t>(home)];
    const Chunk partial = sum_inside(b, sites, home, coded, share);
    if (home != sites.place) continue;
    if (sites.several()) exchange(b, sites, coded, share, partial);
    for (int32_t to = 1; to < inside.size; ++to) b.send(inside.rank_at(inside.wrap(sites.place + to)), on(coded.sums, share));
  }
  for (int32_t home = 0; home < sites.leaders; ++home) {
    if (home != sites.place) b.recv(inside.rank_at(home), on(coded.sums, shares[static_cast<size_t>(home)]));
  }
}

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const Sites sites = sites_of(shape);
  const auto cells = static_cast<uint32_t>(sites.leaders) * static_cast<uint32_t>(sites.members.size());
  const Coded coded = open_coded(shape, b, cells * shape.segments);
  const auto segment_of = [&](uint32_t at) { return b.part(coded.in, at * cells, (at + 1) * cells); };
  pipelined(
      shape.segments, [&](uint32_t at) { join_scales_by_site(b, sites, coded, shares(segment_of(at), sites.leaders)); },
      [&](uint32_t at) { sum(b, sites, coded, shares(segment_of(at), sites.leaders)); },
      [&](uint32_t at) { decode(b, all, coded, segment_of(at)); });
}

}  // namespace

extern const plan::Algorithm compressed_allreduce_hierarchy = {.name = "hierarchy",
                                                               .collective = Collective::allreduce,
                                                               .needs = {.coding = plan::Coding::sums, .by_site = true},
                                                               .tunables = kTunables,
                                                               .steps_formula = "7",
                                                               .bytes_formula = "(2Z + I + W)(1 - M/P) + (Z M + V + W)(M-1)/P",
                                                               .emit = emit};

}  // namespace isthmus::collectives
