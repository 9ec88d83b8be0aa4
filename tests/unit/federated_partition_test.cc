// SPDX-License-Identifier: Apache-2.0
// Partitions against each other: the index against its definition by pairs, the Hungarian method against all permutations, names that stay,
// mixing matrices whose weights are exact.
#include "federated/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace isthmus::federated {
namespace {

std::vector<uint32_t> random_partition(CounterRng& random, size_t size, uint32_t k) {
  std::vector<uint32_t> partition(size);
  for (uint32_t& one : partition) one = static_cast<uint32_t>(random.below(k));
  return partition;
}

/// By its definition over pairs of clients.
double index_by_pairs(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  double in_a = 0, in_b = 0, both = 0, pairs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      in_a += a[i] == a[j];
      in_b += b[i] == b[j];
      both += a[i] == a[j] && b[i] == b[j];
      ++pairs;
    }
  }
  const double expected = in_a * in_b / pairs, most = (in_a + in_b) / 2;
  return most == expected ? 1 : (both - expected) / (most - expected);
}

TEST(AdjustedRandIndex, IsItsDefinitionByPairs) {
  CounterRng random(1, 0);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t size = 2 + random.below(40);
    const auto a = random_partition(random, size, 5), b = random_partition(random, size, 3);
    EXPECT_NEAR(adjusted_rand_index(a, b), index_by_pairs(a, b), 1e-12);
  }
}

TEST(AdjustedRandIndex, KnowsEqualAndIndependentPartitions) {
  CounterRng random(2, 0);
  const auto a = random_partition(random, 2000, 4), b = random_partition(random, 2000, 4);
  auto renamed = a;
  for (uint32_t& one : renamed) one = 7 - one;
  EXPECT_EQ(adjusted_rand_index(a, renamed), 1);
  EXPECT_NEAR(adjusted_rand_index(a, b), 0, 0.01);
}

int64_t gain_of(const std::vector<int64_t>& gains, const std::vector<uint32_t>& pairs, uint32_t columns) {
  int64_t sum = 0;
  for (size_t row = 0; row < pairs.size(); ++row) {
    if (pairs[row] != kNoCluster) sum += gains[row * columns + pairs[row]];
  }
  return sum;
}

int64_t best_by_permutations(const std::vector<int64_t>& gains, uint32_t rows, uint32_t columns) {
  const uint32_t many = std::max(rows, columns);
  std::vector<uint32_t> order(many);
  std::iota(order.begin(), order.end(), 0U);
  int64_t best = INT64_MIN;
  do {
    int64_t sum = 0;
    for (uint32_t i = 0; i < many; ++i) {
      if (i < rows && order[i] < columns) sum += gains[i * columns + order[i]];
    }
    best = std::max(best, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(BestPairs, AreAsGoodAsTheBestPermutation) {
  CounterRng random(3, 0);
  for (int trial = 0; trial < 400; ++trial) {
    const auto rows = static_cast<uint32_t>(1 + random.below(6)), columns = static_cast<uint32_t>(1 + random.below(6));
    std::vector<int64_t> gains(size_t{rows} * columns);
    for (int64_t& gain : gains) gain = static_cast<int64_t>(random.below(12));
    const auto pairs = best_pairs(gains, rows, columns);
    std::vector<uint32_t> used;
    for (const uint32_t column : pairs) {
      if (column != kNoCluster) used.push_back(column);
    }
    std::sort(used.begin(), used.end());
    EXPECT_EQ(used.size(), std::min(rows, columns));
    EXPECT_EQ(std::adjacent_find(used.begin(), used.end()), used.end());
    EXPECT_EQ(gain_of(gains, pairs, columns), best_by_permutations(gains, rows, columns));
  }
}

TEST(StableNames, FollowTheClients) {
  const std::vector<uint32_t> before = {0, 0, 0, 1, 1, 1, 2, 2, 2, kNoCluster};
  const std::vector<uint32_t> after = {2, 2, 2, 0, 0, 0, 1, 1, 3, 3};
  EXPECT_EQ(stable_names(before, 3, after, 4), (std::vector<uint32_t>{1, 2, 0, 3}));
  EXPECT_EQ(stable_names(before, 3, std::vector<uint32_t>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}, 2), (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(stable_names({}, 0, {}, 2), (std::vector<uint32_t>{0, 1}));
}

TEST(MixingMatrix, RowsAreSharesAndSumToOne) {
  const std::vector<uint32_t> before = {0, 0, 1, 1, 2, kNoCluster}, after = {0, 1, 1, 1, 0, 2};
  const std::vector<uint64_t> weights = {30, 10, 20, 10, 10, 99};
  const auto q = mixing_matrix(before, 3, after, 3, weights);
  const std::vector<double> expected = {0.75, 0, 0.25, 0.25, 0.75, 0, 0.5, 0.375, 0.125};  // nobody of the last cluster had a model
  ASSERT_EQ(q.size(), expected.size());
  for (size_t i = 0; i < q.size(); ++i) EXPECT_DOUBLE_EQ(q[i], expected[i]);
}

TEST(MixingMatrix, MixesModelsToAnUlpPerModel) {  // T10
  CounterRng random(4, 0);
  const uint32_t k_old = 5, k_new = 3, parameters = 200;
  std::vector<float> models(size_t{k_old} * parameters);
  for (float& one : models) one = static_cast<float>(random.uniform() * 2 - 1);
  const auto before = random_partition(random, 90, k_old), after = random_partition(random, 90, k_new);
  std::vector<uint64_t> weights(90);
  for (uint64_t& one : weights) one = 1 + random.below(1000);
  const auto q = mixing_matrix(before, k_old, after, k_new, weights);
  const auto mixed = mix_models(q, k_old, models);
  for (uint32_t row = 0; row < k_new; ++row) {
    double sum = 0;
    for (uint32_t l = 0; l < k_old; ++l) sum += q[row * k_old + l];
    EXPECT_NEAR(sum, 1, 1e-15 * k_old);
    for (uint32_t i = 0; i < parameters; ++i) {
      long double exact = 0;
      for (uint32_t l = 0; l < k_old; ++l) exact += static_cast<long double>(q[row * k_old + l]) * models[l * parameters + i];
      EXPECT_NEAR(mixed[row * parameters + i], static_cast<double>(exact), k_old * 6e-8);
    }
  }
}

TEST(MixingMatrix, WeighsExactly) {  // T11
  const uint64_t large = (uint64_t{1} << 32) + 1;
  const std::vector<uint32_t> before = {0, 1, 2, 0}, after = {0, 0, 0, 0};
  const std::vector<uint64_t> weights = {1, 1'000'000, large, large};
  const auto q = mixing_matrix(before, 3, after, 1, weights);
  const uint64_t sum = 1 + 1'000'000 + 2 * large;
  EXPECT_EQ(q[0], static_cast<double>(large + 1) / static_cast<double>(sum));
  EXPECT_EQ(q[1], 1e6 / static_cast<double>(sum));
  EXPECT_EQ(q[2], static_cast<double>(large) / static_cast<double>(sum));
}

}  // namespace
}  // namespace isthmus::federated
