// SPDX-License-Identifier: Apache-2.0
// Clustering by itself: nearest centres against the plain loop, the same result with any number of threads and order of rows, silhouettes
// against their definition, how many clusters the rules find.
#include "federated/clustering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "federated/nearest.h"
#include "federated/partition.h"
#include "federated/silhouette.h"
#include "federated/splitting.h"
#include "federated_clients.h"

namespace isthmus::federated {
namespace {

/// `groups` normal clouds of unit deviation whose centres are about `apart` from each other; row i is of group i % groups.
std::vector<float> clouds(uint64_t seed, size_t rows, uint32_t dims, uint32_t groups, double apart) {
  CounterRng random(seed, 5);
  std::vector<double> centres(size_t{groups} * dims);
  for (double& one : centres) one = normal(random) * apart / std::sqrt(2.0 * dims);
  std::vector<float> values;
  for (size_t row = 0; row < rows; ++row) {
    for (uint32_t j = 0; j < dims; ++j)
      values.push_back(static_cast<float>(centres[row % groups * dims + j] + normal(random) / std::sqrt(dims)));
  }
  return values;
}

std::vector<uint32_t> planted(size_t rows, uint32_t groups) {
  std::vector<uint32_t> result(rows);
  for (size_t row = 0; row < rows; ++row) result[row] = static_cast<uint32_t>(row % groups);
  return result;
}

TEST(CentreTable, FindsWhatThePlainLoopFinds) {
  for (const Metric metric : {Metric::l1, Metric::l2}) {
    for (const uint32_t k : {1U, 3U, 4U, 5U, 10U, 16U, 17U, 40U}) {
      for (const size_t rows : {size_t{1}, size_t{2}, size_t{77}}) {
        const auto values = clouds(k, rows, 13, 3, 2), centres = clouds(k + 100, k, 13, 5, 2);
        const Points points{.values = values, .dims = 13}, middle{.values = centres, .dims = 13};
        std::vector<uint32_t> index(rows);
        std::vector<float> far(rows);
        CentreTable(metric, middle).find(points, index, far);
        for (size_t row = 0; row < rows; ++row) {
          EXPECT_EQ(index[row], nearest(metric, middle, points[row]));
          const double exact = distance(metric, points[row], middle[index[row]]);
          EXPECT_NEAR(far[row], metric == Metric::l2 ? exact * exact : exact, 1e-5);
        }
      }
    }
  }
}

TEST(Kmeans, IsTheSameWithAnyNumberOfThreads) {
  const auto values = clouds(1, 20'000, 7, 5, 3);
  const Points points{.values = values, .dims = 7};
  const Clustering one = kmeans(points, 6, {.restarts = 2, .seed = 9, .threads = 1});
  for (const uint32_t threads : {2U, 3U, 8U}) {
    const Clustering other = kmeans(points, 6, {.restarts = 2, .seed = 9, .threads = threads});
    EXPECT_EQ(one.centres, other.centres);
    EXPECT_EQ(one.assignment, other.assignment);
    EXPECT_EQ(one.inertia, other.inertia);
  }
  EXPECT_NE(one.centres, kmeans(points, 6, {.restarts = 1, .max_iterations = 1, .seed = 10}).centres);
}

TEST(Kmeans, AssignsToTheNearestCentreAndCounts) {
  for (const Metric metric : {Metric::l1, Metric::l2}) {
    const auto values = clouds(2, 500, 6, 4, 3);
    const Points points{.values = values, .dims = 6};
    const Clustering found = kmeans(points, 4, {.metric = metric, .seed = 1});
    std::vector<uint64_t> sizes(4);
    double inertia = 0;
    for (size_t row = 0; row < points.size(); ++row) {
      ++sizes[found.assignment[row]];
      const double far = distance(metric, points[row], found.centre_points()[found.assignment[row]]);
      inertia += metric == Metric::l2 ? far * far : far;
      EXPECT_EQ(found.assignment[row], nearest(metric, found.centre_points(), points[row]));
    }
    EXPECT_EQ(sizes, found.sizes);
    EXPECT_NEAR(inertia, found.inertia, 1e-3);
  }
}

TEST(Kmeans, TheOrderOfRowsChangesOnlyNames) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto values = clouds(seed, 200, 8, 4, 8);
    CounterRng random(seed, 6);
    const std::vector<uint32_t> order = choose(random, 200, 200);
    std::vector<float> shuffled;
    for (const uint32_t row : order) shuffled.insert(shuffled.end(), values.begin() + row * 8, values.begin() + row * 8 + 8);
    const Clustering a = kmeans({.values = values, .dims = 8}, 4, {.seed = seed});
    const Clustering b = kmeans({.values = shuffled, .dims = 8}, 4, {.seed = seed});
    std::vector<uint32_t> back(200);
    for (size_t i = 0; i < order.size(); ++i) back[order[i]] = b.assignment[i];
    EXPECT_EQ(adjusted_rand_index(a.assignment, back), 1);
  }
}

TEST(Kmeans, ManagesEqualRowsAndAsManyCentresAsRows) {
  const std::vector<float> same(30, 1.5F);
  EXPECT_EQ(kmeans({.values = same, .dims = 3}, 4, {}).inertia, 0);
  const auto values = clouds(3, 6, 2, 6, 4);
  EXPECT_NEAR(kmeans({.values = values, .dims = 2}, 6, {}).inertia, 0, 1e-6);
}

TEST(Silhouette, IsItsDefinition) {
  const auto values = clouds(4, 90, 5, 3, 3);
  const Points points{.values = values, .dims = 5};
  auto partition = planted(90, 3);
  partition[7] = 3;  // alone: counts 0
  double total = 0;
  for (size_t i = 0; i < 90; ++i) {
    double sums[4] = {};
    uint64_t sizes[4] = {};
    for (size_t j = 0; j < 90; ++j) {
      if (i == j) continue;
      sums[partition[j]] += distance(Metric::l2, points[i], points[j]);
      ++sizes[partition[j]];
    }
    if (sizes[partition[i]] == 0) continue;
    double other = 1e9;
    for (uint32_t c = 0; c < 4; ++c) {
      if (c != partition[i] && sizes[c] > 0) other = std::min(other, sums[c] / static_cast<double>(sizes[c]));
    }
    const double own = sums[partition[i]] / static_cast<double>(sizes[partition[i]]);
    total += (other - own) / std::max(own, other);
  }
  EXPECT_NEAR(silhouette(Metric::l2, points, partition, 4, 0), total / 90, 1e-12);
}

TEST(Silhouette, OfASampleIsNearTheWhole) {
  const auto values = clouds(5, 5000, 4, 3, 5);
  const Points points{.values = values, .dims = 4};
  const auto partition = planted(5000, 3);
  const std::span<const float> part = std::span(values).first(size_t{kSilhouetteRows} * 4);
  const double exact = silhouette(Metric::l2, {.values = part, .dims = 4}, std::span(partition).first(kSilhouetteRows), 3, 0);
  EXPECT_NEAR(silhouette(Metric::l2, points, partition, 3, 1), exact, 0.02);
  const auto means = means_of(points, partition, 3);
  EXPECT_NEAR(simplified_silhouette(Metric::l2, points, partition, {.values = means, .dims = 4}), exact, 0.2);
}

TEST(BestSplit, TellsTwoCloudsFromOne) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const SplitRules rules{.kmeans = {.seed = seed}};
    const auto one = clouds(seed, 40, 10, 1, 0), two = clouds(seed, 40, 10, 2, 6);
    EXPECT_FALSE(best_split({.values = one, .dims = 10}, rules).significant(rules)) << seed;
    EXPECT_TRUE(best_split({.values = two, .dims = 10}, rules).significant(rules)) << seed;
  }
}

TEST(Cluster, SplittingFindsNestedGroupsThatSilhouetteTakesForTwo) {
  std::vector<float> values;  // two pairs of groups, the pairs far apart
  CounterRng random(8, 0);
  for (uint32_t row = 0; row < 60; ++row) {
    const double far = row % 2 == 0 ? -6 : 6, near = row % 4 < 2 ? -1.2 : 1.2;
    values.push_back(static_cast<float>(far + 0.4 * normal(random)));
    values.push_back(static_cast<float>(near + 0.4 * normal(random)));
  }
  const Points points{.values = values, .dims = 2};
  EXPECT_EQ(cluster(points, {.rule = KRule::silhouette})->clustering.k(), 2U);
  const Found found = cluster(points, {.rule = KRule::split}).value();
  EXPECT_EQ(found.clustering.k(), 4U);
}

TEST(Cluster, ACloudIsOneCluster) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto values = clouds(seed, 60, 10, 1, 0);
    for (const KRule rule : {KRule::silhouette, KRule::split}) {
      EXPECT_EQ(cluster({.values = values, .dims = 10}, {.rule = rule, .seed = seed})->clustering.k(), 1U) << name_of(rule) << seed;
    }
  }
}

TEST(Cluster, DissolvesWhatIsTooSmall) {
  auto values = clouds(9, 40, 3, 2, 10);
  values.insert(values.end(), {50, 50, 50, 51, 51, 51});
  const Points points{.values = values, .dims = 3};
  const Found found = cluster(points, {.k_fixed = 3, .min_cohort = 3}).value();
  EXPECT_LT(found.clustering.k(), 3U);
  for (const uint64_t size : found.clustering.sizes) EXPECT_GE(size, 3U);
  EXPECT_EQ(cluster(points, {.k_fixed = 3, .min_cohort = 2})->clustering.k(), 3U);
}

TEST(Cluster, ManyRowsGoByASample) {
  const auto values = clouds(10, 9000, 4, 3, 9);
  const Found found = cluster({.values = values, .dims = 4}, {.k_fixed = 3, .sample = 500, .threads = 2}).value();
  EXPECT_EQ(adjusted_rand_index(found.clustering.assignment, planted(9000, 3)), 1);
}

TEST(Cluster, SaysWhatCannotBe) {
  const std::vector<float> values(6);
  EXPECT_EQ(cluster({.values = values, .dims = 3}, {.k_fixed = 3}).status().text(), "2 clients cannot make 3 clusters");
  EXPECT_FALSE(cluster({.values = {}, .dims = 3}, {}).ok());
  EXPECT_EQ(parse_k_rule("elbow").status().text(), "'elbow' is no rule; there are: silhouette, split");
}

}  // namespace
}  // namespace isthmus::federated
