// SPDX-License-Identifier: Apache-2.0
// The lists of algorithms. Read by select, by topology/'s planner (which is handed it), by tests and by `isthmus algorithms`.
// Lookups fail only by returning null.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/algorithm.h"

namespace isthmus::collectives {

using Algorithms = std::span<const plan::Algorithm* const>;

/// Every algorithm that sends elements as they are, collective by collective, in the order of the table in docs/algorithms.md.
Algorithms registry();
/// Every algorithm that sends encodings. Only calls that ask for a codec are carried out by these, and always.
Algorithms compressed_registry();

/// The algorithm of that name for that collective, or null.
const plan::Algorithm* find(Collective collective, std::string_view name);
const plan::Algorithm* find_compressed(Collective collective, std::string_view name);

/// The names of a collective's algorithms that serve `ranks` ranks (0: of all), for messages: "ring, direct".
std::string names_of(Collective collective, int32_t ranks = 0);
/// The names of those that can use the codec.
std::string compressed_names_of(Collective collective, const codec::Codec& codec);

/// docs/algorithms.md: name, ranks served, tunables, steps and bytes of each.
std::string algorithms_markdown();

/// The same tables for a terminal.
std::string algorithms_text();

}  // namespace isthmus::collectives
