// SPDX-License-Identifier: Apache-2.0
// A partition of all representations, with the number of clusters given or found. Used at the start and at each global re-clustering.
// Deterministic for a seed and an order of rows. Pure; errors are rules that cannot be met.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "federated/kmeans.h"

namespace isthmus::federated {

/// How the number of clusters is found where it is not given.
enum class KRule : uint8_t {
  silhouette,  ///< the best mean silhouette of 2 .. k_max, 1 if that is below silhouette_min; takes the coarsest of nested groups
  split,  ///< clusters are split while their parts fit better than they would by chance (splitting.h), and rows scatter by more than noise
};
Result<KRule> parse_k_rule(std::string_view name);
std::string_view name_of(KRule rule);

struct ClusterRules {
  Metric metric = Metric::l2;
  KRule rule = KRule::split;
  uint32_t k_fixed = 0;  ///< 0: the rule finds it
  uint32_t k_min = 1;
  uint32_t k_max = 0;                  ///< 0: min(8, sqrt(rows)), at least k_min
  double silhouette_min = 0.2;         ///< a uniform cloud reaches 0.1 to 0.17
  double significance = 4.25;          ///< of rule split: standard deviations (SplitRules)
  std::span<const double> noise = {};  ///< of rule split, by row: squared l2 distance that sampling alone makes; empty: not known
  uint32_t restarts = 4;
  uint32_t min_cohort = 3;   ///< smaller clusters are dissolved into their neighbours
  uint32_t sample = 50'000;  ///< beyond so many rows, centres come from a sample
  uint64_t seed = 0;
  uint32_t threads = 1;
};

struct Found {
  Clustering clustering;
  double silhouette = 0;  ///< of the result; 0 with one cluster
};

/// invalid_argument: no rows, or a k_fixed or k_min that is more than the rows.
Result<Found> cluster(const Points& points, const ClusterRules& rules);

/// theta: the mean distance between centres; with one centre, the mean distance of the rows to it.
double mean_centre_distance(Metric metric, const Points& centres, const Points& points);

}  // namespace isthmus::federated
