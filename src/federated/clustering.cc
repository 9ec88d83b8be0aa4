// SPDX-License-Identifier: Apache-2.0
// clustering.h.
#include "federated/clustering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "federated/draws.h"
#include "federated/silhouette.h"
#include "federated/splitting.h"

namespace isthmus::federated {
namespace {

constexpr std::array<std::string_view, 2> kRuleNames = {"silhouette", "split"};

KmeansRules kmeans_rules(const ClusterRules& rules) {
  return {.metric = rules.metric, .restarts = rules.restarts, .seed = rules.seed, .threads = rules.threads};
}

std::vector<float> rows_of(const Points& points, const Clustering& clustering, uint32_t cluster) {
  std::vector<float> rows;
  for (size_t row = 0; row < points.size(); ++row) {
    if (clustering.assignment[row] == cluster) rows.insert(rows.end(), points[row].begin(), points[row].end());
  }
  return rows;
}

double score_of(const Points& points, const Clustering& clustering, const ClusterRules& rules) {
  return silhouette(rules.metric, points, clustering.assignment, clustering.k(), rules.seed);
}

Clustering by_silhouette(const Points& points, const ClusterRules& rules, uint32_t k_max) {
  Clustering best = kmeans(points, 1, kmeans_rules(rules));
  double score = rules.k_min > 1 ? -2 : rules.silhouette_min;
  for (uint32_t k = std::max(rules.k_min, 2U); k <= k_max; ++k) {
    Clustering one = kmeans(points, k, kmeans_rules(rules));
    const double its = score_of(points, one, rules);
    if (its <= score) continue;
    score = its;
    best = std::move(one);
  }
  return best;
}

/// Replaces a centre by those of its parts, and settles all centres again.
Clustering split_up(const Points& points, const Clustering& clustering, uint32_t cluster, const Clustering& parts,
                    const KmeansRules& rules) {
  std::vector<float> centres = clustering.centres;
  const auto at = centres.begin() + static_cast<std::ptrdiff_t>(size_t{cluster} * points.dims);
  std::copy_n(parts.centres.begin(), points.dims, at);
  centres.insert(centres.end(), parts.centres.begin() + points.dims, parts.centres.end());
  return lloyd(points, {.values = centres, .dims = points.dims}, rules);
}

SplitRules split_rules(const ClusterRules& rules, uint32_t most_parts) {
  return {.kmeans = kmeans_rules(rules),
          .max_parts = std::min(most_parts, 4U),
          .min_rows = rules.min_cohort,
          .significance = rules.significance};
}

/// Rows may scatter so because each is made of few samples: three standard deviations of a mean of squares that have one degree of freedom.
bool is_noise(const Points& points, const Clustering& clustering, uint32_t cluster, const ClusterRules& rules) {
  if (rules.noise.size() != points.size()) return false;
  double scatter = 0, noise = 0;
  for (size_t row = 0; row < points.size(); ++row) {
    if (clustering.assignment[row] != cluster) continue;
    const double far = distance(Metric::l2, points[row], clustering.centre_points()[cluster]);
    scatter += far * far;
    noise += rules.noise[row];
  }
  return scatter <= noise * (1 + 3 * std::sqrt(2.0 / static_cast<double>(clustering.sizes[cluster])));
}

/// The most significant split of any cluster; without parts if there is none.
std::pair<uint32_t, Split> best_of_all(const Points& points, const Clustering& clustering, const ClusterRules& rules,
                                       const SplitRules& limits) {
  std::pair<uint32_t, Split> best;
  for (uint32_t c = 0; c < clustering.k(); ++c) {
    if (is_noise(points, clustering, c, rules)) continue;
    const std::vector<float> rows = rows_of(points, clustering, c);
    Split split = best_split({.values = rows, .dims = points.dims}, limits);
    if (split.parts.k() > 1 && (best.second.parts.k() == 0 || split.score > best.second.score)) best = {c, std::move(split)};
  }
  return best;
}

Clustering by_splitting(const Points& points, const ClusterRules& rules, uint32_t k_max) {
  Clustering now = kmeans(points, 1, kmeans_rules(rules));
  while (now.k() < k_max) {
    const SplitRules limits = split_rules(rules, k_max - now.k() + 1);
    const auto [cluster, split] = best_of_all(points, now, rules, limits);
    if (split.parts.k() == 0 || !(split.significant(limits) || now.k() < rules.k_min)) break;
    now = split_up(points, now, cluster, split.parts, limits.kmeans);
  }
  Clustering afresh = kmeans(points, now.k(), kmeans_rules(rules));  // parts of parts may be stuck where seeds are not
  return afresh.inertia < now.inertia ? std::move(afresh) : std::move(now);
}

/// Dissolves the smallest cluster while it is too small.
Clustering without_small(const Points& points, Clustering clustering, const ClusterRules& rules) {
  while (clustering.k() > 1) {
    const auto smallest = std::min_element(clustering.sizes.begin(), clustering.sizes.end());
    if (*smallest >= std::min<uint64_t>(rules.min_cohort, points.size())) break;
    const auto first = clustering.centres.begin() + (smallest - clustering.sizes.begin()) * points.dims;
    clustering.centres.erase(first, first + points.dims);
    clustering = lloyd(points, clustering.centre_points(), kmeans_rules(rules));
  }
  return clustering;
}

Clustering cluster_all(const Points& points, const ClusterRules& rules) {
  const auto rows = static_cast<uint32_t>(std::min<size_t>(points.size(), UINT32_MAX));
  const uint32_t usual = std::max(1U, std::min(8U, static_cast<uint32_t>(std::sqrt(rows))));
  const uint32_t k_max = std::min(rows, rules.k_max > 0 ? rules.k_max : std::max(rules.k_min, usual));
  Clustering found = rules.k_fixed > 0                 ? kmeans(points, rules.k_fixed, kmeans_rules(rules))
                     : rules.rule == KRule::silhouette ? by_silhouette(points, rules, k_max)
                                                       : by_splitting(points, rules, k_max);
  return without_small(points, std::move(found), rules);
}

/// Centres from a sample, then all rows to them, and each centre to the mean of its rows.
Clustering cluster_by_sample(const Points& points, const ClusterRules& rules) {
  CounterRng random = draws(rules.seed, Stream::sample, 2);
  std::vector<float> values;
  std::vector<double> noise;
  for (const uint32_t row : choose(random, static_cast<uint32_t>(points.size()), rules.sample)) {
    values.insert(values.end(), points[row].begin(), points[row].end());
    if (rules.noise.size() == points.size()) noise.push_back(rules.noise[row]);
  }
  ClusterRules of_rows = rules;
  of_rows.noise = noise;
  const Clustering of_sample = cluster_all({.values = values, .dims = points.dims}, of_rows);
  KmeansRules once = kmeans_rules(rules);
  once.max_iterations = 1;
  return lloyd(points, of_sample.centre_points(), once);
}

}  // namespace

Result<KRule> parse_k_rule(std::string_view name) {
  const auto found = std::find(kRuleNames.begin(), kRuleNames.end(), name);
  if (found == kRuleNames.end()) return invalid_argument(fmt::format("'{}' is no rule; there are: {}", name, join(kRuleNames, ", ")));
  return static_cast<KRule>(found - kRuleNames.begin());
}

std::string_view name_of(KRule rule) { return kRuleNames[static_cast<size_t>(rule)]; }

Result<Found> cluster(const Points& points, const ClusterRules& rules) {
  if (points.size() == 0) return invalid_argument("there are no representations to cluster");
  if (points.size() > UINT32_MAX) return invalid_argument(fmt::format("{} clients are too many for one cohort", points.size()));
  if (std::max(rules.k_fixed, rules.k_min) > points.size()) {
    return invalid_argument(fmt::format("{} clients cannot make {} clusters", points.size(), std::max(rules.k_fixed, rules.k_min)));
  }
  Found found{.clustering = points.size() > rules.sample ? cluster_by_sample(points, rules) : cluster_all(points, rules)};
  if (found.clustering.k() > 1) found.silhouette = score_of(points, found.clustering, rules);
  return found;
}

double mean_centre_distance(Metric metric, const Points& centres, const Points& points) {
  double sum = 0;
  if (centres.size() < 2) {
    for (size_t row = 0; row < points.size(); ++row) sum += distance(metric, points[row], centres[0]);
    return points.size() == 0 ? 0 : sum / static_cast<double>(points.size());
  }
  for (size_t k = 0; k < centres.size(); ++k) {
    for (size_t l = 0; l < k; ++l) sum += distance(metric, centres[k], centres[l]);
  }
  return sum * 2 / static_cast<double>(centres.size() * (centres.size() - 1));
}

}  // namespace isthmus::federated
