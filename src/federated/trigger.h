// SPDX-License-Identifier: Apache-2.0
// When moving single clients is no longer enough and all are clustered anew: centres are held against where they were at the last
// clustering (not the last round, so that slow drift adds up), in units of their distances to each other. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "federated/points.h"

namespace isthmus::federated {

struct TriggerRules {
  double tau = 1.0 / 3;          ///< rho above it re-clusters; equal does not
  double spread_factor = 1.5;    ///< so does a mean distance to centres that has grown by more than this
  uint32_t min_cohort = 3;       ///< so does a cluster with fewer clients, though not with none
  uint32_t cooldown_rounds = 5;  ///< at least so many rounds from one re-clustering to the next, unless rho is above twice tau
  uint32_t empty_rounds = 10;    ///< a cluster without clients is kept for so many rounds
};

enum class Cause : uint8_t { none, first, centres_moved, spread_grew, small_cohort, empty_cohort, asked };
std::string_view name_of(Cause cause);

/// By how much the mean of a cluster's rows moves through their scatter alone: the mean squared l2 distance between the means of `then` and
/// of `now` rows around one centre, `kept` of which are in both: s^2 (1/then + 1/now - 2 kept / (then now)), with s^2 the mean squared
/// distance of a row to that centre (Heterogeneity::scatter). 0 without rows.
double noise_of_move(double scatter, uint64_t then, uint64_t now, uint64_t kept);

/// The largest move of a centre over theta; clusters of size 0 do not count. 0 where theta is 0 and nothing moved. `noise`, by cluster, is
/// taken off the squares of moves, of which it is the mean where nothing but noise moves centres; for l2 only. Empty: none.
double rho_of(Metric metric, const Points& now, const Points& reference, std::span<const uint64_t> sizes, double theta,
              std::span<const double> noise = {});

/// What the decision depends on, this round.
struct Signs {
  double rho = 0;
  double spread = 0, reference_spread = 0;  ///< mean distances to centres: now, at the last clustering
  uint64_t smallest = 0;                    ///< clients of the smallest cluster that has any
  uint32_t longest_empty = 0;               ///< rounds
  uint32_t rounds_since = 0;                ///< the last clustering
};

/// Why to re-cluster; none: go on as it is.
Cause decide(const TriggerRules& rules, const Signs& signs);

/// Where a client belongs: its old cluster, unless another centre is nearer by more than the share `hysteresis` of the old distance.
uint32_t migrate(Metric metric, const Points& centres, std::span<const float> row, uint32_t old, double hysteresis);

}  // namespace isthmus::federated
