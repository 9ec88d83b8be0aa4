// SPDX-License-Identifier: Apache-2.0
// What a cohort makes of reports: which are refused, which repeat others, which are news.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "federated/cohort_state.h"
#include "federated_clients.h"

namespace isthmus::federated {
namespace {

using testing::HasSubstr;

constexpr uint32_t kClients = 60;

TEST(Reports, RepetitionsAndStrangersChangeNothing) {
  CohortState cohort(label_config(4));
  const Crowd crowd(4, kClients);
  report_all(cohort, crowd, 5);
  report_all(cohort, crowd, 5);
  report_all(cohort, crowd, 4);
  RepHeader wrong = cohort.config().rep;
  wrong.probe_hash = 1;
  const Status refused = cohort.report(wrong, {.client = 3, .sequence = 9, .samples = 1, .values = crowd.values[3]});
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_THAT(refused.text(), HasSubstr("client 3: this representation cannot be compared"));
  const DriftReport report = cohort.update().value();
  EXPECT_EQ(report.reported, kClients);
  EXPECT_EQ(report.repeated, 2 * kClients);
  EXPECT_EQ(report.refused, 1U);
  EXPECT_EQ(cohort.cluster_of(1000), kNoCluster);
}

TEST(Reports, RefusesMoreClustersThanItsClientsCanFill) {
  CohortConfig config = label_config(4, 4);
  config.clusters.min_cohort = 16;
  CohortState cohort(config);
  report_all(cohort, Crowd(4, kClients), 1);
  EXPECT_EQ(cohort.update().status().text(), "60 clients cannot make 4 clusters of at least 16 each");
}

TEST(Reports, TakesSharesThatWereRounded) {
  CohortState cohort(label_config(4));
  std::vector<float> shares(kLabels, 0.1F);
  shares[0] += 5e-5F;  // as a file with few digits has them
  EXPECT_TRUE(cohort.report(cohort.config().rep, {.client = 1, .sequence = 1, .samples = kSamples, .values = shares}).ok());
  shares[0] += 5e-4F;
  EXPECT_FALSE(cohort.report(cohort.config().rep, {.client = 1, .sequence = 2, .samples = kSamples, .values = shares}).ok());
}

TEST(Reports, KnowsWhatIsNews) {
  CohortState cohort(label_config(4));
  const Crowd crowd(4, kClients);
  EXPECT_TRUE(cohort.is_news(0, crowd.values[0], kSamples, 10)) << "nothing is known yet";
  report_all(cohort, crowd, 1);
  EXPECT_TRUE(cohort.is_news(0, crowd.values[0], kSamples, 10)) << "no update has placed it";
  ASSERT_TRUE(cohort.update().ok());
  std::vector<float> now = crowd.values[0];
  const auto [least, most] = std::minmax_element(now.begin(), now.end());
  *most -= 0.05F;
  *least += 0.05F;
  EXPECT_FALSE(cohort.is_news(0, now, kSamples, 0)) << "two of 40 samples have another label";

  CohortState exact(label_config(4));
  for (uint64_t i = 0; i < kClients; ++i) {
    ASSERT_TRUE(exact.report(exact.config().rep, {.client = i, .sequence = 1, .samples = 1'000'000, .values = crowd.values[i]}).ok());
  }
  ASSERT_TRUE(exact.update().ok());
  EXPECT_TRUE(exact.is_news(0, now, 1'000'000, 0)) << "with many samples it is no noise";
  EXPECT_FALSE(exact.is_news(0, now, 1'000'000, 0.2)) << "but near enough for who says so";
  const auto other = static_cast<size_t>(
      std::find_if(crowd.groups.begin(), crowd.groups.end(), [&](auto g) { return g != crowd.groups[0]; }) - crowd.groups.begin());
  EXPECT_TRUE(cohort.is_news(0, crowd.values[other], kSamples, 3)) << "nearer to another centre, whatever the distance";
}

}  // namespace
}  // namespace isthmus::federated
