// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter over sites: for each block one member of each site adds up its site's elements and sends the sum to the block's rank,
// which adds those sums in the order of sites. Every site sends its sum of a block once, however many ranks it has. With one site, or with
// all ranks apart, it is the direct algorithm.
#include "collectives/sites.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

/// Where a site's sum of a block comes into being: the place of a member.
int32_t home_of(const Sites& sites, size_t site, size_t block) { return sites.place_of[block] % sites.size_of(site); }

/// Where this rank makes its site's sum of a block, by block; a rank alone at its site has nothing to add.
std::vector<Chunk> room_for_sums(Builder& b, const Sites& sites, Chunks in, const Chunk& own) {
  std::vector<Chunk> sums(in.size());
  const bool alone = sites.size_of(sites.own) == 1;
  for (size_t block = 0; block < in.size(); ++block) {
    if (home_of(sites, sites.own, block) != sites.place) continue;
    const bool mine = in[block].begin == own.begin;
    sums[block] = mine ? own : alone ? in[block] : b.scratch(in[block].begin, in[block].end);
  }
  return sums;
}

/// One cell of each block is added up inside. Blocks go by the member that adds them, so that two members agree on the order of messages.
void gather(Builder& b, const Sites& sites, const Sites::Charges& charges, Chunks in, Chunks sums) {
  const Group inside = sites.inside();
  if (inside.size == 1) return;
  for (int32_t distance = 1; distance <= inside.size; ++distance) {
    const int32_t home = inside.wrap(sites.place + distance);
    for (const int32_t block : charges[static_cast<size_t>(home)]) {
      star_reduce(b, inside, home, in[static_cast<size_t>(block)], sums[static_cast<size_t>(block)]);
    }
  }
}

/// The sums of other sites' blocks leave.
void send_across(Builder& b, const Sites& sites, Chunks sums) {
  b.level(1);
  for (size_t block = 0; block < sums.size(); ++block) {
    const bool mine = home_of(sites, sites.own, block) == sites.place;
    if (mine && sites.site_of[block] != sites.own) b.send(static_cast<int32_t>(block), sums[block]);
  }
  b.level(0);
}

/// The sums of the own block arrive, and `partial` is the own site's.
void add_across(Builder& b, const Sites& sites, size_t me, const Chunk& partial, const Chunk& result) {
  std::vector<int32_t> homes;
  for (size_t site = 0; site < sites.members.size(); ++site) {
    homes.push_back(sites.members[site][static_cast<size_t>(home_of(sites, site, me))]);
  }
  b.level(1);
  star_reduce(b, sites.across(homes), static_cast<int32_t>(sites.own), partial, result);
  b.level(0);
  b.complete(result);
}

void emit(const Shape& shape, Builder& b) {
  const Sites sites = sites_of(shape);
  b.split(shape.segments, kCellAlign);
  const auto me = static_cast<size_t>(shape.group.position);
  const std::vector<Chunk> in = shares(b.in(0, b.cells()), shape.group.size);
  const Chunk own = b.out(in[me].begin, in[me].end);
  const std::vector<Chunk> sums = room_for_sums(b, sites, in, own);
  const Chunk& partial = sites.size_of(sites.own) == 1 ? in[me] : own;
  const Sites::Charges charges = sites.charges();
  pipelined(
      shape.segments, [&](uint32_t at) { gather(b, sites, charges, cells_of(in, at), cells_of(sums, at)); },
      [&](uint32_t at) { send_across(b, sites, cells_of(sums, at)); },
      [&](uint32_t at) { add_across(b, sites, me, cell_of(partial, at), cell_of(own, at)); });
}

}  // namespace

extern const plan::Algorithm reduce_scatter_hierarchy = {.name = "hierarchy",
                                                         .collective = Collective::reduce_scatter,
                                                         .needs = {.by_site = true},
                                                         .tunables = kTunables,
                                                         .steps_formula = "2",
                                                         .bytes_formula = "N(P-1)/P",
                                                         .emit = emit};

}  // namespace isthmus::collectives
