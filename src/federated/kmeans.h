// SPDX-License-Identifier: Apache-2.0
// Lloyd's iterations from k-means++ seeds. Centres are means; near is what the metric says, so with l1 the objective may rise by a little,
// and the best state that was seen is kept. Deterministic for a seed, whatever the number of threads. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "federated/points.h"

namespace isthmus::federated {

struct KmeansRules {
  Metric metric = Metric::l2;
  uint32_t restarts = 4;         ///< seeds that are tried; the least inertia wins, the earliest of equals
  uint32_t max_iterations = 50;  ///< of each
  double tolerance = 1e-4;       ///< it ends when the inertia changes by less, relatively
  uint64_t seed = 0;
  uint32_t threads = 1;
};

struct Clustering {
  uint32_t dims = 0;
  std::vector<float> centres;        ///< k rows of `dims`
  std::vector<uint32_t> assignment;  ///< by row: its nearest centre
  std::vector<uint64_t> sizes;       ///< by cluster: rows
  double inertia = 0;                ///< sum of squared l2 distances, or of l1 distances
  uint32_t iterations = 0;

  [[nodiscard]] uint32_t k() const { return static_cast<uint32_t>(sizes.size()); }
  [[nodiscard]] Points centre_points() const { return {.values = centres, .dims = dims}; }
};

/// Every row to its nearest centre: assignment, sizes and inertia; centres stay as they are.
Clustering assign(const Points& points, const Points& centres, Metric metric, uint32_t threads = 1);
/// Lloyd's iterations from these centres. A cluster that loses all its rows keeps its centre.
Clustering lloyd(const Points& points, const Points& centres, const KmeansRules& rules);
/// The best of rules.restarts k-means++ seedings. Requires 1 <= k <= points.size().
Clustering kmeans(const Points& points, uint32_t k, const KmeansRules& rules);

/// Means of the rows of each of `k` clusters, summed in double precision; clusters without rows have zeros.
std::vector<float> means_of(const Points& points, std::span<const uint32_t> assignment, uint32_t k, uint32_t threads = 1);

}  // namespace isthmus::federated
