// SPDX-License-Identifier: Apache-2.0
// Sets of an aggregator's ranks, and how they travel. Used all over this room. Nothing here can fail but reading.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace isthmus::federated {

inline constexpr uint32_t kMaxContributors = 1024;

using RankSet = std::bitset<kMaxContributors>;
/// Ascending ranks, as base/text.h's number_ranges wants them.
std::vector<int32_t> ranks_of(const RankSet& set);

/// A set in a message: kRankSetBytes. Ranks beyond `ranks` make no sense, and fail the reader.
inline constexpr size_t kRankSetBytes = kMaxContributors / 8;
void write_ranks(Writer& writer, const RankSet& ranks);
RankSet read_ranks(Reader& reader, uint32_t ranks);

}  // namespace isthmus::federated
