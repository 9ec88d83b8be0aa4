// SPDX-License-Identifier: Apache-2.0
// Who is close to whom, by measured round trips: the ladder's last rung, where nobody says where hosts are. Used by surveys. Pure; nothing
// here fails.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/types.h"

namespace isthmus::topology {

/// Divides hosts into sites, by single linkage on the logarithm of their least round trips: going from the nearest pair to the farthest,
/// whoever is linked is together, and where the next link that would join two groups takes more than kSiteGap times as long as the one
/// before, and more than kNearRoundTripNs, the groups are sites. Of several such gaps the widest counts. By host: its site's number, in the
/// order of first appearance; all zero where there is no such gap. `round_trip_ns(a, b)` is asked for a < b < hosts, and is at least 1.
/// Single linkage: Sneath, 1957.
std::vector<int32_t> sites_by_round_trips(int32_t hosts, const std::function<TimeNs(int32_t a, int32_t b)>& round_trip_ns);

/// Round trips that differ by less than this may be of one building, and what is nearer is not worth dividing.
inline constexpr double kSiteGap = 3;
inline constexpr TimeNs kNearRoundTripNs = 100 * kMicrosecondNs;

}  // namespace isthmus::topology
