// SPDX-License-Identifier: Apache-2.0
// The one list of algorithms. Read by select, by topology/'s planner (which is handed it), by tests and by `isthmus algorithms`.
// Lookups fail only by returning null.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/algorithm.h"

namespace isthmus::collectives {

/// Every algorithm, collective by collective, in the order of the table in docs/algorithms.md.
std::span<const plan::Algorithm* const> registry();

/// The algorithm of that name for that collective, or null.
const plan::Algorithm* find(Collective collective, std::string_view name);

/// The names of a collective's algorithms that serve `ranks` ranks (0: of all), for messages: "ring, direct".
std::string names_of(Collective collective, int32_t ranks = 0);

/// docs/algorithms.md: name, ranks served, tunables, steps and bytes of each.
std::string algorithms_markdown();

/// The same table for a terminal.
std::string algorithms_text();

}  // namespace isthmus::collectives
