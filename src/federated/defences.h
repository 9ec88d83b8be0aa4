// SPDX-License-Identifier: Apache-2.0
// Against clients that lie: centres that single rows cannot drag away, a cap on moves, and quarantine for those whose updates disagree with
// their cluster's. (What is no representation at all is refused by check_values.) Somebody who reports another group's histogram cannot be
// told from its representation; only its updates show it, and masks hide those. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "federated/points.h"

namespace isthmus::federated {

/// Coordinate by coordinate, the mean of a cluster's rows without the share `trim` at each end (0.1: a tenth). Clusters without rows keep
/// their row of `centres`.
std::vector<float> trimmed_means(const Points& points, std::span<const uint32_t> assignment, const Points& centres, double trim);
/// The mean of rows that are first drawn to within `bound` of their cluster's centre.
std::vector<float> clipped_means(Metric metric, const Points& points, std::span<const uint32_t> assignment, const Points& centres,
                                 double bound);

/// The cosine of the angle between two updates; 0 if either is zero.
double cosine(std::span<const float> a, std::span<const float> b);

/// How often a client may change its cluster.
struct MoveCap {
  uint32_t moves = 0;           ///< 0: no cap
  uint32_t window_rounds = 10;  ///< windows follow each other
};
/// A client's moves in the current window.
struct Moves {
  uint64_t window = 0;
  uint32_t count = 0;

  /// Counts a move in `round` unless the cap forbids it.
  bool allow(const MoveCap& cap, uint64_t round);
};

struct QuarantineRules {
  double min_cosine = 0;  ///< of a client's update with its cluster's: below is disagreement
  uint32_t rounds = 3;    ///< of disagreement on end that put a client into quarantine; 0: never
};
struct Conduct {
  uint32_t disagreements = 0;  ///< on end
  bool quarantined = false;

  void observe(const QuarantineRules& rules, double cosine);
};

}  // namespace isthmus::federated
