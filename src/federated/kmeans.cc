// SPDX-License-Identifier: Apache-2.0
// kmeans.h. One pass over the rows does both halves of an iteration: it finds each row's centre and adds the row to that centre's sum.
#include "federated/kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "federated/chunks.h"
#include "federated/draws.h"
#include "federated/nearest.h"

namespace isthmus::federated {
namespace {

/// Sums of rows by cluster; one for each chunk, then one for all.
struct Sums {
  std::vector<double> values;  ///< k rows of dims
  std::vector<uint64_t> counts;
  double inertia = 0;

  Sums(uint32_t k, uint32_t dims) : values(size_t{k} * dims), counts(k) {}

  void add(uint32_t cluster, std::span<const float> row) {
    double* to = values.data() + cluster * row.size();
    for (size_t j = 0; j < row.size(); ++j) to[j] += double{row[j]};
    ++counts[cluster];
  }
  void add(const Sums& other) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    inertia += other.inertia;
  }
  /// Clusters without rows keep what `centres` has.
  void write_means(std::vector<float>& centres, uint32_t dims) const {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t count = counts[i / dims];
      if (count > 0) centres[i] = static_cast<float>(values[i] / static_cast<double>(count));
    }
  }
};

template <typename Visit>
Sums sum_chunks(const Points& points, uint32_t k, uint32_t threads, const Visit& visit) {
  std::vector<Sums> parts(chunks_of(points.size()), Sums(k, points.dims));
  for_chunks(points.size(), threads, [&](size_t chunk, size_t first, size_t last) { visit(parts[chunk], first, last); });
  Sums all(k, points.dims);
  for (const Sums& part : parts) all.add(part);
  return all;
}

Points rows_between(const Points& points, size_t first, size_t last) {
  return {.values = points.values.subspan(first * points.dims, (last - first) * points.dims), .dims = points.dims};
}

/// Assigns all rows, and sums them by their new clusters unless only the assignment is wanted.
Sums pass(const Points& points, const CentreTable& table, std::vector<uint32_t>& assignment, uint32_t k, uint32_t threads, bool adding) {
  return sum_chunks(points, k, threads, [&](Sums& sums, size_t first, size_t last) {
    std::vector<float> far(last - first);
    const std::span<uint32_t> index = std::span(assignment).subspan(first, last - first);
    table.find(rows_between(points, first, last), index, far);
    for (size_t row = first; row < last; ++row) {
      sums.inertia += double{far[row - first]};
      if (adding) {
        sums.add(assignment[row], points[row]);
      } else {
        ++sums.counts[assignment[row]];
      }
    }
  });
}

/// k-means++: each next centre is a row, drawn with a probability in proportion to its inertia so far.
std::vector<float> seed_centres(const Points& points, uint32_t k, const KmeansRules& rules, uint64_t restart) {
  CounterRng random = draws(rules.seed, Stream::seeding, restart);
  const size_t rows = points.size();
  std::vector<float> centres, least(rows, std::numeric_limits<float>::infinity());
  std::vector<double> chunk_sums(chunks_of(rows));
  size_t chosen = random.below(rows);
  for (uint32_t centre = 0;; ++centre) {
    centres.insert(centres.end(), points[chosen].begin(), points[chosen].end());
    if (centre + 1 == k) return centres;
    const CentreTable table(rules.metric, {.values = points[chosen], .dims = points.dims});
    for_chunks(rows, rules.threads, [&](size_t chunk, size_t first, size_t last) {
      std::vector<uint32_t> index(last - first);
      std::vector<float> far(last - first);
      table.find(rows_between(points, first, last), index, far);
      chunk_sums[chunk] = 0;
      for (size_t row = first; row < last; ++row) chunk_sums[chunk] += double{least[row] = std::min(least[row], far[row - first])};
    });
    double total = 0;
    for (const double sum : chunk_sums) total += sum;
    if (total <= 0) {  // fewer different rows than centres
      chosen = random.below(rows);
      continue;
    }
    double left = random.uniform() * total;
    size_t row = 0;
    for (; row + 1 < rows && left >= double{least[row]}; ++row) left -= double{least[row]};
    while (least[row] == 0 && row > 0) --row;  // rounding must not choose a row that is a centre already
    chosen = row;
  }
}

}  // namespace

Clustering assign(const Points& points, const Points& centres, Metric metric, uint32_t threads) {
  Clustering result{.dims = points.dims, .centres = {centres.values.begin(), centres.values.end()}};
  result.assignment.resize(points.size());
  const auto k = static_cast<uint32_t>(centres.size());
  Sums sums = pass(points, CentreTable(metric, centres), result.assignment, k, threads, false);
  result.sizes = std::move(sums.counts);
  result.inertia = sums.inertia;
  return result;
}

Clustering lloyd(const Points& points, const Points& centres, const KmeansRules& rules) {
  const auto k = static_cast<uint32_t>(centres.size());
  std::vector<float> at(centres.values.begin(), centres.values.end()), best = at;
  std::vector<uint32_t> assignment(points.size());
  double least = std::numeric_limits<double>::infinity(), before = least;
  uint32_t iterations = 0;
  while (iterations < rules.max_iterations) {
    ++iterations;
    const Sums sums = pass(points, CentreTable(rules.metric, {.values = at, .dims = points.dims}), assignment, k, rules.threads, true);
    if (sums.inertia < least) {
      least = sums.inertia;
      best = at;
    }
    const bool settled = std::abs(before - sums.inertia) <= rules.tolerance * sums.inertia;
    before = sums.inertia;
    std::vector<float> means = at;
    sums.write_means(means, points.dims);
    if (means == at) break;
    at = std::move(means);
    if (settled) break;
  }
  Clustering last = assign(points, {.values = at, .dims = points.dims}, rules.metric, rules.threads);
  if (last.inertia > least) last = assign(points, {.values = best, .dims = points.dims}, rules.metric, rules.threads);
  last.iterations = iterations;
  return last;
}

Clustering kmeans(const Points& points, uint32_t k, const KmeansRules& rules) {
  Clustering best;
  for (uint32_t restart = 0; restart < std::max(rules.restarts, 1U); ++restart) {
    const std::vector<float> seeds = seed_centres(points, k, rules, restart);
    Clustering one = lloyd(points, {.values = seeds, .dims = points.dims}, rules);
    if (restart == 0 || one.inertia < best.inertia) best = std::move(one);
  }
  return best;
}

std::vector<float> means_of(const Points& points, std::span<const uint32_t> assignment, uint32_t k, uint32_t threads) {
  const Sums sums = sum_chunks(points, k, threads, [&](Sums& part, size_t first, size_t last) {
    for (size_t row = first; row < last; ++row) part.add(assignment[row], points[row]);
  });
  std::vector<float> means(size_t{k} * points.dims);
  sums.write_means(means, points.dims);
  return means;
}

}  // namespace isthmus::federated
