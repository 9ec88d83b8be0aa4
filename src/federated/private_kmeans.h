// SPDX-License-Identifier: Apache-2.0
// Lloyd's step of k-means over sums that nobody can look into: each member finds its nearest centre, and all contribute integers of which
// only the sums are seen. What is summed is K (d + 1) words; every member makes the same centres of the sums. Pure arithmetic: a masked or
// plain sum of words (ReduceOp::sum of uint32) is the caller's. Members that follow a wrong centre cannot be found out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "federated/points.h"

namespace isthmus::federated {

/// Centres of equal dimension, one after the other, and in what range representations lie.
struct Centres {
  uint32_t count = 0, dimension = 0;
  std::vector<float> values;
  float least = 0, most = 1;  ///< coordinates beyond are taken for these

  [[nodiscard]] Points points() const { return {.values = values, .dims = dimension}; }
};

/// Sums of more members' coordinates would wrap.
inline constexpr uint64_t kMostLloydMembers = uint64_t{1} << 24;

/// invalid_argument: no centres, values that are not finite or not as many as centres have, no range, or too many members or none.
Status check(const Centres& centres, uint64_t members);

/// Bits of a coordinate, so that no sum over so many members wraps 32 bits: 16 up to 65537 members.
uint32_t coordinate_bits(uint64_t members);

/// Of each centre: the sum of its members' coordinates in steps, and their number; then the sum of simplified silhouettes of all members in
/// twice those steps, moved by one so that it is not negative.
[[nodiscard]] inline size_t lloyd_words(const Centres& centres) { return size_t{centres.count} * (centres.dimension + 1) + 1; }

/// words += one member's contribution. A process that stands for many members calls this for each. invalid_argument: as check(); another
/// dimension, or a coordinate that is not finite.
Status add_to_lloyd(const Centres& centres, std::span<const float> representation, uint64_t members, std::span<uint32_t> words);

/// What the sums say.
struct LloydStep {
  Centres centres;              ///< a centre that nobody was nearest to stays
  std::vector<uint32_t> sizes;  ///< members by centre
  float movement = 0;           ///< the farthest that a centre has moved
  double silhouette = 0;        ///< mean of (b - a) / max(a, b), a and b the distances to the nearest and the next centre
};
/// invalid_argument: as check(); sums that cannot be those of `members` members, or of another number of words.
Result<LloydStep> finish_lloyd(const Centres& before, std::span<const uint32_t> sums, uint64_t members);

}  // namespace isthmus::federated
