// SPDX-License-Identifier: Apache-2.0
// heterogeneity.h.
#include "federated/heterogeneity.h"

#include <algorithm>
#include <cmath>

namespace isthmus::federated {

std::vector<Heterogeneity> heterogeneity_of(Metric metric, const Points& points, std::span<const uint32_t> assignment,
                                            const Points& centres) {
  std::vector<std::vector<double>> far(centres.size());
  for (size_t row = 0; row < points.size(); ++row) {
    far[assignment[row]].push_back(distance(metric, points[row], centres[assignment[row]]));
  }
  std::vector<Heterogeneity> result;
  for (std::vector<double>& one : far) {
    Heterogeneity& its = result.emplace_back(Heterogeneity{.size = one.size()});
    if (one.empty()) continue;
    for (const double distance : one) {
      its.mean += distance;
      its.scatter += distance * distance;
    }
    its.mean /= static_cast<double>(one.size());
    its.scatter = one.size() < 2 ? 0 : its.scatter / static_cast<double>(one.size() - 1);
    const auto place = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(one.size()))) - 1;
    std::nth_element(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(place), one.end());
    its.p95 = one[place];
    its.max = *std::max_element(one.begin(), one.end());
  }
  return result;
}

double overall_mean(std::span<const Heterogeneity> clusters) {
  double sum = 0;
  uint64_t clients = 0;
  for (const Heterogeneity& one : clusters) {
    sum += one.mean * static_cast<double>(one.size);
    clients += one.size;
  }
  return clients == 0 ? 0 : sum / static_cast<double>(clients);
}

double gradient_slope(std::span<const UpdatePair> pairs, double step) {
  double slope = 0;
  for (const UpdatePair& pair : pairs) {
    if (pair.representation_distance > 0) slope = std::max(slope, pair.update_distance / (step * pair.representation_distance));
  }
  return slope;
}

double gradient_bound(const BoundTerms& t) {
  const double progress = (t.gap + t.reclusterings * t.jump) / (t.lr * t.steps * t.rounds);
  const double noise = t.lr * t.smoothness * t.noise_squared / t.clients;
  const double local = t.lr * t.smoothness * t.steps;
  return progress + noise + local * local * (t.noise_squared / t.steps + t.zeta * t.zeta);
}

}  // namespace isthmus::federated
