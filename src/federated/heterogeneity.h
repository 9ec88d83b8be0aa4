// SPDX-License-Identifier: Apache-2.0
// How unlike the clients of a cluster are, which bounds how far their gradients are apart: if gradients differ by at most G D(r_i, r_j), a
// client's gradient is within 2 G max_i D(r_i, c) of its cluster's. Everything but G can be seen. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "federated/points.h"

namespace isthmus::federated {

/// Distances of a cluster's clients to its centre.
struct Heterogeneity {
  uint64_t size = 0;
  double mean = 0, p95 = 0, max = 0;
  double scatter = 0;  ///< mean squared distance to where the centre would be of endless clients: sum of squares / (size - 1); 0 for one
};

/// By cluster, one for each centre.
std::vector<Heterogeneity> heterogeneity_of(Metric metric, const Points& points, std::span<const uint32_t> assignment,
                                            const Points& centres);
/// The mean over all clients.
double overall_mean(std::span<const Heterogeneity> clusters);

/// Two clients' updates and representations.
struct UpdatePair {
  double update_distance = 0;          ///< l2, of the sums of their local steps
  double representation_distance = 0;  ///< D
};
/// A lower estimate of G: the largest update_distance / (step D) over the pairs; `step` is learning rate times local steps.
double gradient_slope(std::span<const UpdatePair> pairs, double step);

/// What the analysis of local steps on smooth losses says of the mean squared gradient of a cluster after `rounds` rounds, up to a
/// constant factor: (gap + re-clusterings * jump) / (lr E T) + lr L s^2 / m + lr^2 L^2 E^2 (s^2 / E + zeta^2). Re-clusterings cost
/// linearly and shrink zeta: hence few of them.
struct BoundTerms {
  double gap = 0, jump = 0;                                      ///< loss above its least value; loss that mixing models adds
  double lr = 0, smoothness = 0;                                 ///< L
  double noise_squared = 0;                                      ///< s^2, of a stochastic gradient
  double zeta = 0;                                               ///< 2 G max D
  double clients = 1, steps = 1, rounds = 1, reclusterings = 0;  ///< m, E, T
};
double gradient_bound(const BoundTerms& terms);

}  // namespace isthmus::federated
