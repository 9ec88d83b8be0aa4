// SPDX-License-Identifier: Apache-2.0
// Whether a client's data have drifted since its last report, or only look so because samples are few. Runs on the client, whose silence
// means unchanged. Pure; nothing here fails.
//
// A threshold is the distance that two samples of one distribution have on average plus three standard deviations of it. In many dimensions
// that is far, and other groups may be nearer; so a client that knows the cohort's centres also reports when it would move (trigger.h).
#pragma once

#include <cstdint>
#include <span>

#include "federated/points.h"

namespace isthmus::federated {

inline constexpr double kNoiseDeviations = 3;

/// Of the l1 distance of two label histograms of n and n_reported samples. Label y's shares differ by about a normal number of variance
/// v = p (1 - p) (1/n + 1/n_reported), so |difference| has mean sqrt(2 v / pi) and variance (1 - 2/pi) v; p is the mean share, drawn
/// towards equal shares by one sample so that labels nobody saw count.
double histogram_threshold(std::span<const float> now, uint64_t n, std::span<const float> reported, uint64_t n_reported);

/// The mean squared l2 distance of such a histogram to the distribution that its n samples come from, without bias:
/// (1 - sum of squared shares) / (n - 1). One sample tells nothing, and counts as all noise.
double histogram_noise(std::span<const float> shares, uint64_t n);

/// What is known of a mean of n samples: how it would scatter. Sums over dimensions of the samples' covariance S.
struct Scatter {
  double trace = 0;   ///< tr S
  double square = 0;  ///< |S|^2, the sum of its squared elements
};
/// Of rows of samples; quadratic in the rows, which a client has few of.
Scatter scatter_of(const Points& samples);
/// Of the l2 distance of two means. Its square has mean t = c tr S and standard deviation c sqrt(2) |S|, c = 1/n + 1/n_reported.
double mean_threshold(const Scatter& scatter, uint64_t n, uint64_t n_reported);

/// distance(now, reported) > max(threshold, at_least).
bool has_drifted(Metric metric, std::span<const float> now, std::span<const float> reported, double threshold, double at_least = 0);

}  // namespace isthmus::federated
