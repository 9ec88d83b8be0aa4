// SPDX-License-Identifier: Apache-2.0
// Phases over sites. See sites.h.
#include "collectives/compressed/sites.h"

namespace isthmus::collectives {

namespace {

/// This rank's share, of which it is the leader.
void join_share(Builder& b, const Sites& sites, const Coded& coded, const Chunk& share) {
  const Group inside = sites.inside();
  const Chunk joined = on(coded.scales, share);
  const Chunk at_site = sites.several() ? b.scratch(share.begin, share.end, plan::Layout::scale) : joined;
  Chunk held = on(coded.measured, share);
  for (int32_t distance = 1; distance < inside.size; ++distance) {
    b.recv_reduce_scale(inside.rank_at(inside.wrap(inside.position - distance)), at_site, held);
    held = at_site;
  }
  if (sites.several()) {
    const std::vector<int32_t> leaders = sites.counterparts();
    b.level(1);
    join(b, sites.across(leaders), held, joined);
    b.level(0);
  }
  for (int32_t distance = 1; distance < inside.size; ++distance) {
    b.send(inside.rank_at(inside.wrap(inside.position + distance)), joined);
  }
}

}  // namespace

void join_scales_by_site(Builder& b, const Sites& sites, const Coded& coded, Chunks shares) {
  if (!coded.scaled) return;
  const Group inside = sites.inside();
  measure(b, coded, joined(shares, 0, sites.leaders));
  const auto others_shares = [&](auto&& use) {
    for (int32_t distance = 1; distance <= sites.leaders; ++distance) {
      const int32_t home = (sites.place + distance) % sites.leaders;
      if (home != sites.place) use(inside.rank_at(home), shares[static_cast<size_t>(home)]);
    }
  };
  others_shares([&](int32_t leader, const Chunk& share) { b.send(leader, on(coded.measured, share)); });
  if (sites.leads()) join_share(b, sites, coded, shares[static_cast<size_t>(sites.place)]);
  others_shares([&](int32_t leader, const Chunk& share) { b.recv(leader, on(coded.scales, share)); });
}

Chunk sum_inside(Builder& b, const Sites& sites, int32_t home, const Coded& coded, const Chunk& cells) {
  const Group inside = sites.inside();
  Chunk sum;
  if (home == sites.place && inside.size > 1) sum = sites.several() ? room_for(b, cells, inside.size) : on(coded.sums, cells);
  return star_sum(b, inside, home, coded, cells, sum);
}

void add_across(Builder& b, const Sites& sites, int32_t place, const Coded& coded, const Chunk& cells, const Chunk& partial) {
  const Chunk sum = on(coded.sums, cells);
  Chunk held = partial;
  for (const size_t site : sites.others()) {
    const Chunk arrived = room_for(b, cells, sites.size_of(site));
    b.recv(sites.members[site][static_cast<size_t>(place % sites.size_of(site))], arrived);
    b.accumulate(sum, held, arrived);
    held = sum;
  }
}

}  // namespace isthmus::collectives
