// SPDX-License-Identifier: Apache-2.0
// Compressed reduce-scatter over sites: for each block one member of each site adds up the site's encodings and sends the sum to the
// block's rank, which adds and decodes. Every site sends its sum of a block once, however many ranks it has. With one site it is the
// direct algorithm.
#include "collectives/compressed/sites.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

/// One cell of each block. Blocks go by the member that adds them, so that two members agree on the order of their messages.
void sum(Builder& b, const Shape& shape, const Sites& sites, const Coded& coded, Chunks cells) {
  const auto me = static_cast<size_t>(shape.group.position);
  const int32_t size = sites.size_of(sites.own);
  Chunk own;
  for (int32_t distance = 1; distance <= size; ++distance) {
    const int32_t home = (sites.place + distance) % size;
    for (size_t owner = 0; owner < cells.size(); ++owner) {
      if (sites.place_of[owner] % size != home) continue;
      const Chunk partial = sum_inside(b, sites, home, coded, cells[owner]);
      if (owner == me) own = partial;
      if (home != sites.place || owner == me) continue;
      b.level(1);
      b.send(static_cast<int32_t>(owner), partial);
      b.level(0);
    }
  }
  b.level(1);
  add_across(b, sites, sites.place, coded, cells[me], own);
  b.level(0);
}

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const Sites sites = sites_of(shape);
  const Coded coded = open_coded(shape, b, shape.segments);
  const std::vector<Chunk> blocks = shares(coded.in, all.size);
  join_scales_by_site(b, sites, coded, cut(coded.in, static_cast<uint32_t>(sites.leaders)));
  pipelined(
      shape.segments, [](uint32_t) {}, [&](uint32_t at) { sum(b, shape, sites, coded, cells_of(blocks, at)); },
      [&](uint32_t at) { decode(b, all, coded, cell_of(blocks[static_cast<size_t>(all.position)], at)); });
}

}  // namespace

extern const plan::Algorithm compressed_reduce_scatter_hierarchy = {.name = "hierarchy",
                                                                    .collective = Collective::reduce_scatter,
                                                                    .needs = {.coding = plan::Coding::sums, .by_site = true},
                                                                    .tunables = kTunables,
                                                                    .steps_formula = "5",
                                                                    .bytes_formula = "(2Z + I)(1 - M/P) + (Z M + V)(M-1)/P",
                                                                    .emit = emit};

}  // namespace isthmus::collectives
