// SPDX-License-Identifier: Apache-2.0
// Allgather over sites: each rank sends its block to its own site and to one member of each other site, which tells its site. Every block
// comes to a site once, however many ranks it has. With one site, or with all ranks apart, it is the direct algorithm.
#include "collectives/sites.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

/// The own block leaves for the other sites first, since that takes longest.
void send_across(Builder& b, const Sites& sites, const Chunk& own) {
  b.level(1);
  for (const size_t site : sites.others()) {
    b.send(sites.members[site][static_cast<size_t>(sites.place % sites.size_of(site))], own);
  }
  b.level(0);
}

/// One cell of each of the own site's blocks goes around there.
void tell_own(Builder& b, const Sites& sites, const Chunk& own, Chunks out) {
  star_broadcast(b, sites.inside(), sites.place, own);
  for (const int32_t member : sites.members[sites.own]) {
    const Chunk& block = out[static_cast<size_t>(member)];
    sites.place_of[static_cast<size_t>(member)] == sites.place ? place(b, block, own) : b.recv(member, block);
  }
}

/// One cell of each of the other sites' blocks: those that come to this rank go on to its site, the others come from its members.
void tell_others(Builder& b, const Sites& sites, const Sites::Charges& charges, Chunks out) {
  const Group inside = sites.inside();
  for (int32_t distance = 1; distance <= inside.size; ++distance) {
    const int32_t home = inside.wrap(sites.place + distance);
    for (const int32_t from : charges[static_cast<size_t>(home)]) {
      const auto block = static_cast<size_t>(from);
      if (sites.site_of[block] == sites.own) continue;
      b.level(1);
      if (home == sites.place) b.recv(from, out[block]);
      b.level(0);
      star_broadcast(b, inside, home, out[block]);
    }
  }
}

void emit(const Shape& shape, Builder& b) {
  const Sites sites = sites_of(shape);
  b.split(shape.segments, kCellAlign);
  const std::vector<Chunk> out = shares(b.out(0, b.cells()), shape.group.size);
  const Chunk own = own_block(shape, b);
  const Sites::Charges charges = sites.charges();
  pipelined(
      shape.segments, [&](uint32_t at) { send_across(b, sites, cell_of(own, at)); },
      [&](uint32_t at) { tell_own(b, sites, cell_of(own, at), cells_of(out, at)); },
      [&](uint32_t at) { tell_others(b, sites, charges, cells_of(out, at)); });
}

}  // namespace

extern const plan::Algorithm allgather_hierarchy = {.name = "hierarchy",
                                                    .collective = Collective::allgather,
                                                    .needs = {.by_site = true},
                                                    .tunables = kTunables,
                                                    .steps_formula = "2",
                                                    .bytes_formula = "N(P-1)/P",
                                                    .emit = emit};

}  // namespace isthmus::collectives
