// SPDX-License-Identifier: Apache-2.0
// silhouette.h.
#include "federated/silhouette.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "federated/draws.h"

namespace isthmus::federated {
namespace {

double score(double own, double other) {
  const double larger = std::max(own, other);
  return larger > 0 ? (other - own) / larger : 0;
}

}  // namespace

double silhouette(Metric metric, const Points& points, std::span<const uint32_t> assignment, uint32_t k, uint64_t seed) {
  std::vector<uint32_t> rows(points.size());
  std::iota(rows.begin(), rows.end(), 0U);
  if (rows.size() > kSilhouetteRows) {
    CounterRng random = draws(seed, Stream::sample);
    rows = choose(random, static_cast<uint32_t>(points.size()), kSilhouetteRows);
  }
  std::vector<double> sums(rows.size() * k);  // [row][cluster]: distances to all rows of the cluster
  std::vector<uint64_t> sizes(k);
  for (size_t i = 0; i < rows.size(); ++i) {
    ++sizes[assignment[rows[i]]];
    for (size_t j = 0; j < i; ++j) {
      const double far = distance(metric, points[rows[i]], points[rows[j]]);
      sums[i * k + assignment[rows[j]]] += far;
      sums[j * k + assignment[rows[i]]] += far;
    }
  }
  double total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t own = assignment[rows[i]];
    double other = std::numeric_limits<double>::infinity();
    for (uint32_t c = 0; c < k; ++c) {
      if (c != own && sizes[c] > 0) other = std::min(other, sums[i * k + c] / static_cast<double>(sizes[c]));
    }
    if (sizes[own] < 2 || other == std::numeric_limits<double>::infinity()) continue;
    total += score(sums[i * k + own] / static_cast<double>(sizes[own] - 1), other);
  }
  return rows.empty() ? 0 : total / static_cast<double>(rows.size());
}

double simplified_silhouette(Metric metric, const Points& points, std::span<const uint32_t> assignment, const Points& centres) {
  if (centres.size() < 2 || points.size() == 0) return 0;
  double total = 0;
  for (size_t row = 0; row < points.size(); ++row) {
    double other = std::numeric_limits<double>::infinity();
    for (uint32_t c = 0; c < centres.size(); ++c) {
      if (c != assignment[row]) other = std::min(other, distance(metric, points[row], centres[c]));
    }
    total += score(distance(metric, points[row], centres[assignment[row]]), other);
  }
  return total / static_cast<double>(points.size());
}

}  // namespace isthmus::federated
