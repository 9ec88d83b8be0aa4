// SPDX-License-Identifier: Apache-2.0
// Phases over sites (collectives/sites.h), so that encodings are added up inside before anything leaves: for compressed hierarchies.
// Called by the hierarchies of collectives/compressed/; errors are held by the builder.
#pragma once

#include <cstdint>

#include "collectives/compressed/phases.h"
#include "collectives/sites.h"

namespace isthmus::collectives {

/// Joins the scales of all cells of the shares (one for each leader; together they are one chunk): inside at the shares' leaders, then
/// among the leaders of all sites, then back.
void join_scales_by_site(Builder& b, const Sites& sites, const Coded& coded, Chunks shares);

/// The site's sum of the cells comes into being at the member of place `home`, which gets to know where; in `sums` if it is everybody's.
Chunk sum_inside(Builder& b, const Sites& sites, int32_t home, const Coded& coded, const Chunk& cells);

/// The sum of all sites' sums of the cells: `partial` is this rank's, the others' come from the members of place `place` (counted around).
void add_across(Builder& b, const Sites& sites, int32_t place, const Coded& coded, const Chunk& cells, const Chunk& partial);

}  // namespace isthmus::collectives
