// SPDX-License-Identifier: Apache-2.0
// detection.h.
#include "federated/detection.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace isthmus::federated {
namespace {

double inverse_sum(uint64_t n, uint64_t m) {
  return 1 / static_cast<double>(std::max<uint64_t>(n, 1)) + 1 / static_cast<double>(std::max<uint64_t>(m, 1));
}

}  // namespace

double histogram_threshold(std::span<const float> now, uint64_t n, std::span<const float> reported, uint64_t n_reported) {
  const double c = inverse_sum(n, n_reported), samples = static_cast<double>(n) + static_cast<double>(n_reported);
  double mean = 0, variance = 0;
  for (size_t y = 0; y < now.size(); ++y) {
    const double seen = double{now[y]} * static_cast<double>(n) + double{reported[y]} * static_cast<double>(n_reported);
    const double p = (seen + 1 / static_cast<double>(now.size())) / (samples + 1);
    const double v = std::max(p * (1 - p) * c, 0.0);
    mean += std::sqrt(2 * v / std::numbers::pi);
    variance += (1 - 2 / std::numbers::pi) * v;
  }
  return mean + kNoiseDeviations * std::sqrt(variance);
}

double histogram_noise(std::span<const float> shares, uint64_t n) {
  double squares = 0;
  for (const float share : shares) squares += double{share} * double{share};
  return n < 2 ? 1 : (1 - std::min(squares, 1.0)) / static_cast<double>(n - 1);
}

Scatter scatter_of(const Points& samples) {
  const size_t rows = samples.size();
  if (rows < 2) return {};
  std::vector<double> mean(samples.dims);
  for (size_t i = 0; i < samples.values.size(); ++i) mean[i % samples.dims] += double{samples.values[i]} / static_cast<double>(rows);
  std::vector<double> residuals(samples.values.begin(), samples.values.end());
  for (size_t i = 0; i < residuals.size(); ++i) residuals[i] -= mean[i % samples.dims];
  Scatter scatter;
  const double unit = 1 / static_cast<double>(rows - 1);
  for (size_t a = 0; a < rows; ++a) {  // |S|^2 = |X X'|^2 / (n - 1)^2: rows are fewer than dimensions squared
    for (size_t b = 0; b <= a; ++b) {
      double product = 0;
      for (uint32_t j = 0; j < samples.dims; ++j) product += residuals[a * samples.dims + j] * residuals[b * samples.dims + j];
      product *= unit;
      scatter.square += (a == b ? 1 : 2) * product * product;
      if (a == b) scatter.trace += product;
    }
  }
  return scatter;
}

double mean_threshold(const Scatter& scatter, uint64_t n, uint64_t n_reported) {
  const double c = inverse_sum(n, n_reported);
  return std::sqrt(c * (scatter.trace + kNoiseDeviations * std::numbers::sqrt2 * std::sqrt(scatter.square)));
}

bool has_drifted(Metric metric, std::span<const float> now, std::span<const float> reported, double threshold, double at_least) {
  return distance(metric, now, reported) > std::max(threshold, at_least);
}

}  // namespace isthmus::federated
