// SPDX-License-Identifier: Apache-2.0
// The scenarios of label drift on made-up clients: separable groups are found, moving clients need no re-clustering, new groups need
// exactly one, noise needs nothing. And what a cohort's memory promises besides.
#include "federated/cohort_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "federated_clients.h"

namespace isthmus::federated {
namespace {

constexpr uint32_t kClients = 60;
constexpr uint64_t kSeeds = 10;

/// Rounds pass without reports, so that no cool-down holds anything back.
void rest(CohortState& cohort, int rounds = 6) {
  for (int i = 0; i < rounds; ++i) {
    const DriftReport report = cohort.update().value();
    EXPECT_FALSE(report.reclustered);
    EXPECT_EQ(report.migrated, 0U);
  }
}

double agreement(const CohortState& cohort, const Crowd& crowd) { return adjusted_rand_index(cohort.assignment(), crowd.groups); }

TEST(CohortScenario, SeparableLabelsAreFound) {  // T1
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const KRule rule : {KRule::silhouette, KRule::split}) {
      CohortConfig config = label_config(seed);
      config.clusters.rule = rule;
      CohortState cohort(config);
      const Crowd crowd(seed, kClients);
      report_all(cohort, crowd, 1);
      const DriftReport report = cohort.update().value();
      EXPECT_EQ(report.k, 4U) << name_of(rule) << seed;
      EXPECT_EQ(agreement(cohort, crowd), 1) << name_of(rule) << seed;
      EXPECT_EQ(report.cause, Cause::first);
      EXPECT_FALSE(report.reclustered);
      EXPECT_EQ(report.epoch, 1U);
    }
  }
}

TEST(CohortScenario, MovesBetweenKnownGroupsNeedNoReclustering) {  // T2
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const uint32_t percent : {10U, 40U, 80U}) {
      CohortState cohort(label_config(seed));
      Crowd crowd(seed, kClients);
      report_all(cohort, crowd, 1);
      ASSERT_TRUE(cohort.update().ok());
      rest(cohort);
      crowd.switch_groups(kClients * percent / 100, sets_before());
      report_all(cohort, crowd, 2);
      const DriftReport report = cohort.update().value();
      EXPECT_LE(report.rho, 0.17) << seed << " " << percent;
      EXPECT_FALSE(report.reclustered) << seed << " " << percent;
      EXPECT_EQ(report.migrated, kClients * percent / 100);
      EXPECT_EQ(agreement(cohort, crowd), 1);
      EXPECT_EQ(report.epoch, 2U);
    }
  }
}

TEST(CohortScenario, NewGroupsNeedExactlyOne) {  // T3 and T9
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CohortConfig moving = label_config(seed);
    moving.recluster = Recluster::never;
    CohortState cohort(label_config(seed)), only_moves(moving);
    Crowd crowd(seed, kClients);
    for (CohortState* each : {&cohort, &only_moves}) {
      report_all(*each, crowd, 1);
      ASSERT_TRUE(each->update().ok());
      rest(*each);
    }
    crowd.redraw(sets_after());
    for (CohortState* each : {&cohort, &only_moves}) report_all(*each, crowd, 2);
    const DriftReport moved = only_moves.update().value(), report = cohort.update().value();
    EXPECT_GT(report.rho, 0.45) << seed;
    EXPECT_TRUE(report.reclustered);
    EXPECT_EQ(report.cause, Cause::centres_moved);
    EXPECT_EQ(agreement(cohort, crowd), 1) << seed;
    EXPECT_LT(agreement(only_moves, crowd), 0.8) << seed;
    EXPECT_LT(overall_mean(report.clusters), overall_mean(moved.clusters));
    EXPECT_EQ(cohort.mixing().size(), size_t{report.k} * cohort.k_old());
    rest(cohort, 20);
    EXPECT_TRUE(cohort.mixing().empty());
  }
}

TEST(CohortScenario, TheThresholdIsAnEdge) {  // T4
  const TriggerRules rules;
  const auto cause = [&](double rho) {
    return decide(rules, {.rho = rho, .spread = 1, .reference_spread = 1, .smallest = 9, .rounds_since = 9});
  };
  EXPECT_EQ(cause(rules.tau * 0.99), Cause::none);
  EXPECT_EQ(cause(rules.tau), Cause::none);
  EXPECT_EQ(cause(rules.tau * 1.01), Cause::centres_moved);

  for (const double factor : {0.99, 1.01}) {  // two groups on a line, one of which drifts as a whole
    CohortConfig config{.rep = {.kind = RepKind::embedding, .dims = 1}, .clusters = {.k_fixed = 2}};
    CohortState cohort(config);
    const auto report_at = [&](double second, uint64_t sequence) {
      for (uint64_t client = 0; client < 8; ++client) {
        const auto value = static_cast<float>((client < 4 ? 0 : second) + 0.001 * static_cast<double>(client));
        ASSERT_TRUE(cohort.report(config.rep, {.client = client, .sequence = sequence, .samples = 1, .values = std::span(&value, 1)}).ok());
      }
    };
    report_at(3, 1);
    ASSERT_TRUE(cohort.update().ok());
    rest(cohort);
    const double theta = 3 + 0.004;
    report_at(3 + theta / 3 * factor, 2);
    const DriftReport report = cohort.update().value();
    EXPECT_NEAR(report.rho, factor / 3, 1e-4);
    EXPECT_EQ(report.reclustered, factor > 1);
  }
}

constexpr uint32_t kNoisyDims = 256, kNoisyClients = 24;

/// Four groups whose centres are two from each other, of clients that scatter around them by `scatter` in the mean square.
struct NoisyCrowd {
  CounterRng random;
  double scatter;
  CohortConfig config{.rep = {.kind = RepKind::embedding, .dims = kNoisyDims}, .clusters = {.k_fixed = 4, .restarts = 32}};

  NoisyCrowd(uint64_t seed, double squared) : random(seed, 98), scatter(squared) { config.clusters.seed = seed; }

  /// Clients 0, step, 2 step, .. draw anew; every group's centre is `shift` from where it was, all in one direction.
  void report(CohortState& cohort, uint64_t sequence, double shift = 0, uint32_t step = 1) {
    const double deviation = std::sqrt(scatter / kNoisyDims);
    for (uint64_t client = 0; client < kNoisyClients; client += step) {
      std::vector<float> values(kNoisyDims);
      for (uint32_t d = 0; d < kNoisyDims; ++d) {
        const double centre = (d == client % 4 ? std::numbers::sqrt2 : 0) + (d == 5 ? shift : 0);
        values[d] = static_cast<float>(centre + deviation * normal(random));
      }
      ASSERT_TRUE(cohort.report(config.rep, {.client = client, .sequence = sequence, .samples = 40, .values = values}).ok());
    }
  }
};

TEST(CohortScenario, CentresThatMoveThroughNoiseAloneNeedNothing) {  // T5, where the noise is large
  double farthest = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    NoisyCrowd crowd(seed, 1.6);
    CohortState cohort(crowd.config);
    crowd.report(cohort, 1);
    ASSERT_TRUE(cohort.update().ok());
    rest(cohort);
    const std::vector<float> before(cohort.centres().values.begin(), cohort.centres().values.end());
    crowd.report(cohort, 2);
    const DriftReport report = cohort.update().value();
    EXPECT_LE(report.rho, 0.2) << seed;
    EXPECT_FALSE(report.reclustered) << seed;
    const std::vector<uint64_t> sizes(4, 1);
    farthest = std::max(farthest, rho_of(Metric::l2, cohort.centres(), {.values = before, .dims = kNoisyDims}, sizes, report.theta));
  }
  EXPECT_GT(farthest, 1.0 / 3);  // what rho would have been
}

TEST(CohortScenario, NoiseDoesNotHideWhatMovesCentres) {  // T4, in noise
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const double part : {0.2, 0.5}) {
      NoisyCrowd crowd(seed, 1.6);
      CohortState cohort(crowd.config);
      crowd.report(cohort, 1);
      const double theta = cohort.update()->theta;
      rest(cohort);
      crowd.report(cohort, 2, part * theta);
      const DriftReport report = cohort.update().value();
      EXPECT_NEAR(report.rho, part, 0.12) << seed << " " << part;
      EXPECT_EQ(report.reclustered, part > 1.0 / 3) << seed << " " << part;
    }
  }
}

TEST(CohortScenario, WhoDoesNotReportAddsNoNoise) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    NoisyCrowd crowd(seed, 0.4);
    CohortState cohort(crowd.config);
    crowd.report(cohort, 1);
    const double theta = cohort.update()->theta;
    rest(cohort);
    crowd.report(cohort, 2, theta / 2, 3);  // a third of each group goes half of theta far, and takes its centre a third of that
    const DriftReport report = cohort.update().value();
    EXPECT_EQ(report.migrated, 0U) << seed;
    EXPECT_NEAR(report.rho, 1.0 / 6, 0.02) << seed;  // 0.2 with the noise
  }
}

TEST(CohortScenario, NoDriftMovesNobody) {  // T5
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CohortState cohort(label_config(seed));
    Crowd crowd(seed, kClients);
    report_all(cohort, crowd, 1);
    ASSERT_TRUE(cohort.update().ok());
    rest(cohort);
    crowd.redraw(sets_before());
    report_all(cohort, crowd, 2);
    const DriftReport report = cohort.update().value();
    EXPECT_EQ(report.migrated, 0U);
    EXPECT_LE(report.rho, 0.14);
    EXPECT_FALSE(report.reclustered);
    EXPECT_EQ(report.epoch, 1U);
  }
}

/// One share of each label from a symmetric Dirichlet distribution: a gamma number by Marsaglia and Tsang, below 1 by the usual power.
double gamma_number(CounterRng& random, double shape) {
  if (shape < 1) return gamma_number(random, shape + 1) * std::pow(random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

TEST(CohortScenario, WithoutGroupsThereIsOneCluster) {  // T8
  for (const double alpha : {0.05, 0.3, 1.0, 10.0}) {
    for (const KRule rule : {KRule::silhouette, KRule::split}) {
      CohortConfig config = label_config(0);
      config.clusters.rule = rule;
      CohortState cohort(config);
      Crowd crowd(0, kClients);
      for (auto& values : crowd.values) {
        std::vector<double> weights;
        double sum = 0;
        for (uint32_t y = 0; y < kLabels; ++y) sum += weights.emplace_back(gamma_number(crowd.random, alpha));
        std::vector<uint64_t> counts(kLabels);
        for (uint32_t i = 0; i < kSamples; ++i) {
          double left = crowd.random.uniform() * sum;
          uint32_t y = 0;
          for (; y + 1 < kLabels && left >= weights[y]; ++y) left -= weights[y];
          ++counts[y];
        }
        values = label_histogram(counts).value();
      }
      report_all(cohort, crowd, 1);
      const DriftReport report = cohort.update().value();
      if (alpha >= 1) {
        EXPECT_EQ(report.k, 1U) << name_of(rule) << alpha;
      }
      if (report.k > 1) {
        EXPECT_LT(report.spread, report.theta) << name_of(rule) << alpha;
      }
    }
  }
}

TEST(CohortScenario, MigrationNeverSpreadsClustersAroundFixedCentres) {  // T9
  CohortConfig config = label_config(3);
  CohortState cohort(config);
  Crowd crowd(3, kClients);
  report_all(cohort, crowd, 1);
  ASSERT_TRUE(cohort.update().ok());
  const std::vector<float> centres(cohort.centres().values.begin(), cohort.centres().values.end());
  const std::vector<uint32_t> before = cohort.assignment();
  crowd.switch_groups(30, sets_before());
  report_all(cohort, crowd, 2);
  ASSERT_TRUE(cohort.update().ok());
  const auto flat = crowd.flat();
  const Points points{.values = flat, .dims = kLabels}, fixed{.values = centres, .dims = kLabels};
  const double stayed = overall_mean(heterogeneity_of(Metric::l1, points, before, fixed));
  const double moved = overall_mean(heterogeneity_of(Metric::l1, points, cohort.assignment(), fixed));
  EXPECT_LT(moved, stayed);
}

TEST(CohortScenario, RandomReportsDoNotHarmTheHonest) {  // T18
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const uint32_t liars : {6U, 24U}) {
      CohortState cohort(label_config(seed, 4));
      Crowd crowd(seed, kClients);
      const LabelSets anything = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
      for (uint32_t i = 0; i < liars; ++i) crowd.values[i] = histogram_of(anything[0], crowd.random, 6);
      report_all(cohort, crowd, 1);
      ASSERT_TRUE(cohort.update().ok());
      const auto honest = [&] {
        const auto found = cohort.assignment();
        return adjusted_rand_index(std::span(found).subspan(liars), std::span(crowd.groups).subspan(liars));
      };
      EXPECT_EQ(honest(), 1) << seed << " " << liars;
      for (int round = 0; round < 3; ++round) {
        for (uint32_t i = 0; i < kClients; ++i) cohort.observe_update(i, i < liars ? -0.2 : 0.8);
      }
      const DriftReport report = cohort.update().value();
      EXPECT_EQ(report.quarantined, liars);
      EXPECT_EQ(honest(), 1);
      EXPECT_TRUE(cohort.quarantined(0));
      EXPECT_FALSE(cohort.quarantined(kClients - 1));
      cohort.release(0);
      EXPECT_EQ(cohort.update()->quarantined, liars - 1);
    }
  }
}

TEST(CohortState, TheOrderOfReportsDoesNotShow) {
  const Crowd crowd(1, kClients);
  CohortState forwards(label_config(1)), backwards(label_config(1));
  report_all(forwards, crowd, 1);
  for (size_t i = crowd.values.size(); i-- > 0;) {
    ASSERT_TRUE(
        backwards.report(backwards.config().rep, {.client = i, .sequence = 1, .samples = kSamples, .values = crowd.values[i]}).ok());
  }
  ASSERT_TRUE(forwards.update().ok());
  ASSERT_TRUE(backwards.update().ok());
  EXPECT_EQ(forwards.assignment(), backwards.assignment());
  EXPECT_TRUE(std::equal(forwards.centres().values.begin(), forwards.centres().values.end(), backwards.centres().values.begin()));
}

TEST(CohortState, OtherNamesForClientsChangeOnlyNames) {
  const Crowd crowd(2, kClients);
  CohortState plain(label_config(2)), renamed(label_config(2));
  const auto other = [](uint64_t id) { return (id * 37 + 5) % kClients; };
  report_all(plain, crowd, 1);
  for (size_t i = 0; i < kClients; ++i) {
    ASSERT_TRUE(
        renamed.report(renamed.config().rep, {.client = other(i), .sequence = 1, .samples = kSamples, .values = crowd.values[i]}).ok());
  }
  ASSERT_TRUE(plain.update().ok());
  ASSERT_TRUE(renamed.update().ok());
  std::vector<uint32_t> a, b;
  for (size_t i = 0; i < kClients; ++i) {
    a.push_back(plain.cluster_of(i));
    b.push_back(renamed.cluster_of(other(i)));
  }
  EXPECT_EQ(adjusted_rand_index(a, b), 1);
}

TEST(CohortState, ClientsComeAndGo) {
  CohortState cohort(label_config(5));
  Crowd crowd(5, kClients);
  report_all(cohort, crowd, 1);
  ASSERT_TRUE(cohort.update().ok());
  rest(cohort);
  for (uint64_t client = 0; client < 20; ++client) cohort.remove(client);
  EXPECT_EQ(cohort.update()->clients, 40U);
  const auto newcomer = histogram_of(sets_before()[2], crowd.random);
  ASSERT_TRUE(cohort.report(cohort.config().rep, {.client = 500, .sequence = 0, .samples = kSamples, .values = newcomer}).ok());
  EXPECT_EQ(cohort.cluster_of(500), kNoCluster);
  const DriftReport report = cohort.update().value();
  EXPECT_EQ(report.joined, 1U);
  EXPECT_EQ(cohort.cluster_of(500), cohort.cluster_of(22));  // of the same group
  EXPECT_EQ(cohort.ids().back(), 500U);
}

TEST(CohortState, TooFewClientsSayHowMany) {
  CohortState cohort(label_config(6, 4));
  const Crowd crowd(6, 3);
  report_all(cohort, crowd, 1);
  EXPECT_EQ(cohort.update().status().text(), "3 clients cannot make 4 clusters");
  report_all(cohort, Crowd(6, 12), 2);
  EXPECT_EQ(cohort.update()->k, 4U);
}

TEST(CohortState, NoiseOfMovesByHand) {
  EXPECT_DOUBLE_EQ(noise_of_move(3, 15, 15, 0), 0.4);
  EXPECT_DOUBLE_EQ(noise_of_move(3, 15, 15, 15), 0);
  EXPECT_DOUBLE_EQ(noise_of_move(3, 15, 15, 5), 3 * 2 * (10.0 / 15) / 15);
  EXPECT_DOUBLE_EQ(noise_of_move(1, 2, 4, 2), 0.25);  // means of a, b and of a, b, c, d: (a + b - c - d) / 4
  EXPECT_EQ(noise_of_move(3, 0, 15, 0), 0);
  EXPECT_EQ(noise_of_move(3, 15, 0, 0), 0);
}

TEST(CohortState, NoiseOfMovesIsWhatRowsDoInTheMean) {
  CounterRng random(1, 97);
  constexpr uint32_t kThen = 5, kNow = 8, kKept = 3, kTries = 20'000;
  double sum = 0;
  for (uint32_t at = 0; at < kTries; ++at) {
    double then = 0, now = 0;
    for (uint32_t row = 0; row < kThen + kNow - kKept; ++row) {
      const double value = 2 * normal(random);
      then += row < kThen ? value / kThen : 0;
      now += row >= kThen - kKept ? value / kNow : 0;
    }
    sum += (then - now) * (then - now) / kTries;
  }
  EXPECT_NEAR(sum / noise_of_move(4, kThen, kNow, kKept), 1, 0.05);
}

TEST(CohortState, RhoIsWithoutNoise) {
  const std::vector<float> then = {0, 0, 9, 0}, now = {0.3F, 0.4F, 9, 0.3F};
  const Points reference{.values = then, .dims = 2}, centres{.values = now, .dims = 2};
  const std::vector<uint64_t> sizes = {7, 7}, second = {0, 7};
  const std::vector<double> noise = {0.16, 0.25};
  EXPECT_NEAR(rho_of(Metric::l2, centres, reference, sizes, 2), 0.25, 1e-7);
  EXPECT_NEAR(rho_of(Metric::l2, centres, reference, sizes, 2, noise), 0.15, 1e-7);  // sqrt(0.25 - 0.16) / 2
  EXPECT_EQ(rho_of(Metric::l2, centres, reference, second, 2, noise), 0);            // 0.09 is less than its noise
}

TEST(CohortState, ScatterHasNoBias) {
  const std::vector<float> values = {1, 2, 3, 50}, centres = {2, 50};
  const std::vector<uint32_t> assignment = {0, 0, 0, 1};
  const auto found = heterogeneity_of(Metric::l2, {.values = values, .dims = 1}, assignment, {.values = centres, .dims = 1});
  EXPECT_DOUBLE_EQ(found[0].scatter, 1);
  EXPECT_EQ(found[1].scatter, 0);
}

TEST(CohortState, TheCoolDownHoldsUnlessDriftIsLarge) {
  const TriggerRules rules;
  const auto cause = [&](double rho, uint32_t since) {
    return decide(rules, {.rho = rho, .spread = 1, .reference_spread = 1, .smallest = 9, .rounds_since = since});
  };
  EXPECT_EQ(cause(0.5, 4), Cause::none);
  EXPECT_EQ(cause(0.5, 5), Cause::centres_moved);
  EXPECT_EQ(cause(0.7, 1), Cause::centres_moved);
}

TEST(CohortState, OtherSignsTrigger) {
  const Signs quiet{.rho = 0.1, .spread = 1, .reference_spread = 1, .smallest = 9, .rounds_since = 9};
  const TriggerRules rules;
  EXPECT_EQ(decide(rules, quiet), Cause::none);
  Signs signs = quiet;
  signs.spread = 1.51;
  EXPECT_EQ(decide(rules, signs), Cause::spread_grew);
  signs = quiet;
  signs.smallest = 2;
  EXPECT_EQ(decide(rules, signs), Cause::small_cohort);
  signs = quiet;
  signs.longest_empty = 11;
  EXPECT_EQ(decide(rules, signs), Cause::empty_cohort);
}

TEST(CohortState, CappedMovesAreCounted) {
  CohortConfig config = label_config(7);
  config.move_cap = {.moves = 1, .window_rounds = 100};
  CohortState cohort(config);
  Crowd crowd(7, kClients);
  report_all(cohort, crowd, 1);
  ASSERT_TRUE(cohort.update().ok());
  crowd.switch_groups(10, sets_before());
  report_all(cohort, crowd, 2);
  EXPECT_EQ(cohort.update()->migrated, 10U);
  crowd.switch_groups(60, sets_before());
  report_all(cohort, crowd, 3);
  const DriftReport report = cohort.update().value();
  EXPECT_EQ(report.migrated, 50U);
  EXPECT_EQ(report.capped, 10U);
}

TEST(CohortState, GradientsAreBoundedByDistances) {
  const std::vector<UpdatePair> pairs = {{.update_distance = 1, .representation_distance = 2},
                                         {.update_distance = 3, .representation_distance = 2},
                                         {.update_distance = 5, .representation_distance = 0}};
  EXPECT_DOUBLE_EQ(gradient_slope(pairs, 0.1), 15);
  BoundTerms terms{
      .gap = 2, .jump = 1, .lr = 0.1, .smoothness = 1, .noise_squared = 1, .zeta = 1, .clients = 10, .steps = 5, .rounds = 100};
  const double once = gradient_bound(terms);
  EXPECT_NEAR(once, 2.0 / 50 + 0.1 / 10 + 0.25 * (0.2 + 1), 1e-12);
  terms.reclusterings = 1;
  EXPECT_NEAR(gradient_bound(terms) - once, 1.0 / 50, 1e-12);
}

}  // namespace
}  // namespace isthmus::federated
