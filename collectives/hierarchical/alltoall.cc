// SPDX-License-Identifier: Apache-2.0
// All-to-all over sites: what the ranks of a site have for one rank of another is gathered at one of them and crosses in one message, where
// the direct algorithm sends one for each of them. As many bytes cross, in as many messages as the larger of two sites has ranks. Within a
// site, with one site, and with all ranks apart, it is the direct algorithm.
#include <algorithm>

#include "collectives/sites.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}, {"leaders", 1, 64}};

/// What crosses together: the blocks of the members [begin, end) of one site.
struct Part {
  size_t begin = 0, end = 0;
};

/// The message of a site of `size` members in as many parts as there are segments, or members.
std::vector<Part> parts_of(size_t size, uint32_t segments) {
  std::vector<Part> parts;
  for (size_t part = 0; part < segments; ++part) {
    const Part next = {size * part / segments, size * (part + 1) / segments};
    if (next.begin < next.end) parts.push_back(next);
  }
  return parts;
}

/// How many of a site gather: its first members.
int32_t gatherers(const Sites& sites, size_t site, uint32_t leaders) {
  return leaders == 0 ? sites.size_of(site) : std::min(sites.size_of(site), static_cast<int32_t>(leaders));
}

/// Positions at other sites, from the next site on, whose blocks the own site's member at place `home` gathers.
std::vector<int32_t> charges_of(const Sites& sites, int32_t home, uint32_t leaders) {
  std::vector<int32_t> charges;
  const int32_t stride = gatherers(sites, sites.own, leaders);
  if (home >= stride) return charges;
  for (size_t distance = 1; distance < sites.members.size(); ++distance) {
    const std::vector<int32_t>& site = sites.members[(sites.own + distance) % sites.members.size()];
    for (auto place = static_cast<size_t>(home); place < site.size(); place += static_cast<size_t>(stride)) {
      charges.push_back(site[place]);
    }
  }
  return charges;
}

/// What this rank has for other sites goes to those who gather it.
void hand_over(Builder& b, const Sites& sites, uint32_t leaders, Chunks in) {
  const Group inside = sites.inside();
  for (int32_t distance = 1; distance < inside.size; ++distance) {
    const int32_t home = inside.wrap(inside.position + distance);
    for (const int32_t to : charges_of(sites, home, leaders)) b.send(inside.rank_at(home), in[static_cast<size_t>(to)]);
  }
}

/// The own site's blocks for one rank of another site, by the place of who has them; and across.
void gather(Builder& b, const Sites& sites, uint32_t segments, int32_t to, Chunks in) {
  const Group inside = sites.inside();
  const Chunk& own = in[static_cast<size_t>(to)];
  const Chunk room = inside.size == 1 ? own : b.scratch(0, static_cast<uint32_t>(inside.size));
  const std::vector<Chunk> blocks = shares(room, inside.size);
  place(b, blocks[static_cast<size_t>(inside.position)], own);
  for (int32_t distance = 1; distance < inside.size; ++distance) {
    const int32_t from = inside.wrap(inside.position - distance);
    b.recv(inside.rank_at(from), blocks[static_cast<size_t>(from)]);
  }
  b.level(1);
  for (const Part& part : parts_of(blocks.size(), segments)) {
    b.send(to, joined(blocks, static_cast<int32_t>(part.begin), static_cast<int32_t>(part.end)));
  }
  b.level(0);
}

/// A site's blocks for this rank, from the one who has gathered them. Members that follow each other write where they belong.
void receive(Builder& b, const Sites& sites, const Shape& shape, size_t site, Chunks out) {
  const std::vector<int32_t>& members = sites.members[site];
  const int32_t from = members[static_cast<size_t>(sites.place % gatherers(sites, site, shape.leaders))];
  for (const Part& part : parts_of(members.size(), shape.segments)) {
    const int32_t first = members[part.begin], last = members[part.end - 1];
    const auto count = static_cast<int32_t>(part.end - part.begin);
    const bool in_a_row = last - first + 1 == count;
    const Chunk room = in_a_row ? joined(out, first, last + 1) : b.scratch(0, static_cast<uint32_t>(count));
    b.level(1);
    b.recv(from, room);
    b.level(0);
    if (in_a_row) continue;
    const std::vector<Chunk> blocks = shares(room, count);
    for (size_t at = 0; at < blocks.size(); ++at) b.copy(out[static_cast<size_t>(members[part.begin + at])], blocks[at]);
  }
}

void emit(const Shape& shape, Builder& b) {
  const Sites sites = sites_of(shape);
  const std::vector<Chunk> in = shares(b.in(0, b.cells()), shape.group.size), out = shares(b.out(0, b.cells()), shape.group.size);
  const auto me = static_cast<size_t>(shape.group.position);
  hand_over(b, sites, shape.leaders, in);
  for (const int32_t to : charges_of(sites, sites.place, shape.leaders)) gather(b, sites, shape.segments, to, in);
  b.copy(out[me], in[me]);
  exchange_blocks(b, sites.inside(), in, out);
  for (const size_t site : sites.others()) receive(b, sites, shape, site, out);
}

}  // namespace

extern const plan::Algorithm alltoall_hierarchy = {.name = "hierarchy",
                                                   .collective = Collective::alltoall,
                                                   .needs = {.by_site = true},
                                                   .tunables = kTunables,
                                                   .steps_formula = "2",
                                                   .bytes_formula = "N(2 - 1/M - M/P)",
                                                   .emit = emit};

}  // namespace isthmus::collectives
