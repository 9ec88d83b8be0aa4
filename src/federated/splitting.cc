// SPDX-License-Identifier: Apache-2.0
// splitting.h. A cloud's row is a random normal combination of the rows' residuals, which has exactly their covariance, also where there
// are more dimensions than rows.
#include "federated/splitting.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "federated/draws.h"

namespace isthmus::federated {
namespace {

std::vector<float> sample_of(const Points& points, uint32_t max_rows, uint64_t seed) {
  if (points.size() <= max_rows) return {points.values.begin(), points.values.end()};
  CounterRng random = draws(seed, Stream::sample, 1);
  std::vector<float> values;
  for (const uint32_t row : choose(random, static_cast<uint32_t>(points.size()), max_rows)) {
    values.insert(values.end(), points[row].begin(), points[row].end());
  }
  return values;
}

constexpr uint32_t kFewestRows = 5;  // of a part, on average

using Vector = std::vector<double>;

double product(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// Vectors of length 1 at right angles that span the differences of the centres (Gram and Schmidt).
std::vector<Vector> basis_of(const Points& centres) {
  std::vector<Vector> basis;
  for (size_t k = 1; k < centres.size(); ++k) {
    Vector direction(centres.dims);
    for (uint32_t j = 0; j < centres.dims; ++j) direction[j] = double{centres[k][j]} - double{centres[0][j]};
    for (const Vector& other : basis) {
      const double along = product(direction, other);
      for (uint32_t j = 0; j < centres.dims; ++j) direction[j] -= along * other[j];
    }
    const double length = std::sqrt(product(direction, direction));
    if (length < 1e-9) continue;  // as good as a combination of the others
    for (double& one : direction) one /= length;
    basis.push_back(std::move(direction));
  }
  return basis;
}

/// Sum of squared distances to the means of the parts along one direction.
double inertia_along(const Vector& direction, const Points& points, std::span<const uint32_t> parts, uint32_t count) {
  Vector sums(count), squares(count), sizes(count);
  for (size_t row = 0; row < points.size(); ++row) {
    double at = 0;
    for (uint32_t j = 0; j < points.dims; ++j) at += direction[j] * double{points[row][j]};
    sums[parts[row]] += at;
    squares[parts[row]] += at * at;
    ++sizes[parts[row]];
  }
  double inertia = 0;
  for (uint32_t k = 0; k < count; ++k) inertia += sizes[k] > 0 ? squares[k] - sums[k] * sums[k] / sizes[k] : 0;
  return std::max(inertia, 0.0);
}

/// Logarithm of the inertia within `count` clusters over that of all rows, in the space of the clusters' centres.
double index_of(const Points& points, uint32_t count, const KmeansRules& rules) {
  constexpr double kLeast = 1e-9;  // rows that equal their centres are not infinitely well split
  const Clustering found = kmeans(points, count, rules);
  const std::vector<uint32_t> together(points.size(), 0);
  double within = 0, whole = 0;
  for (const Vector& direction : basis_of(found.centre_points())) {
    within += inertia_along(direction, points, found.assignment, count);
    whole += inertia_along(direction, points, together, 1);
  }
  return whole > 0 ? std::log(std::max(within / whole, kLeast)) : 0;
}

std::vector<float> residuals_of(const Points& points) {
  const std::vector<uint32_t> together(points.size(), 0);
  const std::vector<float> mean = means_of(points, together, 1);
  std::vector<float> residuals(points.values.begin(), points.values.end());
  for (size_t i = 0; i < residuals.size(); ++i) residuals[i] -= mean[i % points.dims];
  return residuals;
}

/// As many rows as there are residuals. Their mean is 0: where it is does not matter to the index.
std::vector<float> cloud_like(const Points& residuals, CounterRng& random) {
  const size_t rows = residuals.size();
  const double unit = 1 / std::sqrt(static_cast<double>(rows - 1));
  std::vector<float> cloud(residuals.values.size());
  for (size_t row = 0; row < rows; ++row) {
    float* to = cloud.data() + row * residuals.dims;
    for (size_t other = 0; other < rows; ++other) {
      const auto weight = static_cast<float>(unit * normal(random));
      for (uint32_t j = 0; j < residuals.dims; ++j) to[j] += weight * residuals[other][j];
    }
  }
  return cloud;
}

std::vector<std::vector<float>> make_clouds(const Points& points, const SplitRules& rules) {
  const std::vector<float> residuals = residuals_of(points);
  CounterRng random = draws(rules.kmeans.seed, Stream::split, points.size());
  std::vector<std::vector<float>> clouds;
  for (uint32_t i = 0; i < rules.clouds; ++i) clouds.push_back(cloud_like({.values = residuals, .dims = points.dims}, random));
  return clouds;
}

/// Gain and score of so many parts.
Split measure_split(const Points& points, const std::vector<std::vector<float>>& clouds, uint32_t parts, const KmeansRules& rules) {
  Vector indices;
  double mean = 0, squares = 0;
  for (const std::vector<float>& cloud : clouds) {
    indices.push_back(index_of({.values = cloud, .dims = points.dims}, parts, rules));
    mean += indices.back() / static_cast<double>(clouds.size());
  }
  for (const double index : indices) squares += (index - mean) * (index - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(indices.size() - 1));
  Split split;
  split.gain = mean - index_of(points, parts, rules);
  split.score = deviation > 0 ? split.gain / deviation : 0;
  return split;
}

}  // namespace

Split best_split(const Points& points, const SplitRules& rules) {
  KmeansRules by_l2 = rules.kmeans;
  by_l2.metric = Metric::l2;
  by_l2.restarts = std::min(by_l2.restarts, 3U);
  const std::vector<float> sample = sample_of(points, rules.max_rows, rules.kmeans.seed);
  const Points looked_at{.values = sample, .dims = points.dims};
  const auto most = static_cast<uint32_t>(std::min<size_t>(rules.max_parts, points.size() / std::max(rules.min_rows, kFewestRows)));
  Split best;
  if (most < 2) return best;
  const std::vector<std::vector<float>> clouds = make_clouds(looked_at, rules);
  for (uint32_t parts = 2; parts <= most; ++parts) {
    Split split = measure_split(looked_at, clouds, parts, by_l2);
    split.parts = kmeans(points, parts, by_l2);
    if (*std::min_element(split.parts.sizes.begin(), split.parts.sizes.end()) < rules.min_rows) continue;
    const bool better = split.gain > best.gain || best.parts.k() == 0;
    if (split.significant(rules) == best.significant(rules) ? better : split.significant(rules)) best = std::move(split);
  }
  return best;
}

}  // namespace isthmus::federated
