// SPDX-License-Identifier: Apache-2.0
// Surveys: which experiments are made between which ranks, what the budget leaves out, and what given results say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "topology/planner/survey.h"

namespace isthmus::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr int64_t kWallClock = 1'700'000'000;

/// A network on which everything takes exactly as long as it should.
struct Truth {
  TimeNs near_ns = 50'000, far_ns = 5 * kMillisecondNs;  ///< one way
  TimeNs per_message_ns = 2'000;
  double near_rate = 1e9, far_rate = 25e6;
  double cut_rate = 0;  ///< 0: streams do not hinder each other

  [[nodiscard]] TimeNs time(const SurveyPlan& plan, const Experiment& one, const Round& round) const {
    const bool far = plan.layout().sites()[static_cast<size_t>(one.from)] != plan.layout().sites()[static_cast<size_t>(one.to)];
    double rate = far ? far_rate : near_rate;
    if (cut_rate > 0 && far && plan.experiments().size() > 1 && plan.experiments()[0].from != one.to &&
        plan.experiments()[0].rounds == one.rounds) {
      rate = cut_rate / static_cast<double>(plan.experiments().size());
    }
    const double bytes = round.bytes > Experiment::kAnswerBytes ? static_cast<double>(round.bytes) : 0;
    return 2 * (far ? far_ns : near_ns) + (round.messages - 1) * per_message_ns + static_cast<TimeNs>(bytes / rate * 1e9);
  }
};

/// Carries out the present phase; `elapsed_ns` goes on by what the busiest rank's take.
void carry_out(SurveyPlan& plan, const Truth& truth, TimeNs& elapsed_ns, TimeNs budget_ns = 2 * kSecondNs) {
  std::vector<int64_t> results(plan.result_count(), 0);
  std::map<int32_t, TimeNs> by_rank;
  for (size_t i = 0; i < plan.experiments().size(); ++i) {
    const Experiment& one = plan.experiments()[i];
    std::vector<TimeNs> times;
    for (const Round& round : one.rounds) times.push_back(truth.time(plan, one, round));
    for (const TimeNs time : times) by_rank[one.from] += time, by_rank[one.to] += time;
    const auto report = one.report(times);
    std::copy(report.begin(), report.end(),
              results.begin() + static_cast<std::ptrdiff_t>(SurveyPlan::kHeader + SurveyPlan::kPerExperiment * i));
  }
  TimeNs longest = 0;
  for (const auto& [rank, time] : by_rank) longest = std::max(longest, time);
  elapsed_ns += longest;
  results[SurveyPlan::kElapsedNs] = elapsed_ns;
  results[SurveyPlan::kBudgetNs] = budget_ns;
  results[SurveyPlan::kWallClockS] = kWallClock;
  results[SurveyPlan::kReduceBytesPerS] = 7'000'000'000;
  results[SurveyPlan::kCopyBytesPerS] = 9'000'000'000;
  plan.accept(results);
}

Profile survey(std::string_view layout, const Truth& truth, TimeNs budget_ns = 2 * kSecondNs, TimeNs* elapsed_ns = nullptr) {
  SurveyPlan plan(*parse_layout(layout));
  TimeNs elapsed = 0;
  int phases = 0;
  while (!plan.experiments().empty() && ++phases < 100) carry_out(plan, truth, elapsed, budget_ns);
  EXPECT_LT(phases, 100);
  if (elapsed_ns != nullptr) *elapsed_ns = elapsed;
  return plan.profile();
}

std::vector<std::pair<int32_t, int32_t>> first_pairs(std::string_view layout) {
  const SurveyPlan plan(*parse_layout(layout));
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (const Experiment& one : plan.experiments()) {
    if (one.by_rank) pairs.emplace_back(one.from, one.to);
  }
  return pairs;
}

const LinkFacts* link(const Profile& profile, std::string_view from, std::string_view to, std::optional<Level> within = std::nullopt) {
  for (const LinkFacts& one : profile.links) {
    if (one.from == from && one.to == to && one.within == within) return &one;
  }
  return nullptr;
}

TEST(Survey, OnePairStandsForEachKindOfLink) {
  EXPECT_THAT(first_pairs("2x2x2"), ElementsAre(Pair(0, 1), Pair(0, 2), Pair(0, 4)));
  EXPECT_THAT(first_pairs("2x2/cyclic"), ElementsAre(Pair(0, 2), Pair(0, 1)));
  EXPECT_THAT(first_pairs("1+2x2"), ElementsAre(Pair(0, 1), Pair(2, 4), Pair(0, 2)));
  EXPECT_THAT(first_pairs("3x1"), ElementsAre(Pair(1, 2), Pair(0, 2), Pair(0, 1)));
  EXPECT_THAT(first_pairs("4x1"), UnorderedElementsAre(Pair(0, 1), Pair(0, 2), Pair(0, 3), Pair(1, 2), Pair(1, 3), Pair(2, 3)));
  EXPECT_THAT(first_pairs("1x1x4"), SizeIs(0));
}

TEST(Survey, ManySitesHaveOnePair) {
  EXPECT_THAT(first_pairs("8x2"), SizeIs(1 + 8 * 7 / 2));
  EXPECT_THAT(first_pairs("9x2"), ElementsAre(Pair(0, 1), Pair(0, 8)));
}

TEST(Survey, TimesAreToldWithoutTheFirst) {
  Experiment one{.rounds = std::vector<Round>(4, Round{.bytes = 8}), .by_rank = true};
  EXPECT_THAT(one.report({900, 30, 10, 20}), ElementsAre(10, 30));
  one.by_rank = false;
  EXPECT_THAT(one.report({900, 30, 10, 20}), ElementsAre(10, 20));
  EXPECT_THAT(one.report({7}), ElementsAre(7, 7));
}

TEST(Survey, ResultsBecomeFacts) {
  const Truth truth;
  const Profile profile = survey("2x2", truth);
  for (const auto& [from, to] : {std::pair("b0", "b1"), std::pair("b1", "b0")}) {
    const LinkFacts* facts = link(profile, from, to);
    ASSERT_NE(facts, nullptr);
    EXPECT_EQ(facts->latency_ns, truth.far_ns);
    EXPECT_EQ(facts->jitter_ns, 0);
    EXPECT_EQ(facts->overhead_ns, truth.per_message_ns);
    EXPECT_NEAR(static_cast<double>(facts->stream_bytes_per_s), truth.far_rate, 0.01 * truth.far_rate);
    EXPECT_EQ(facts->cut_bytes_per_s, 0U);
    EXPECT_EQ(facts->confidence, Confidence::measured);
    EXPECT_EQ(facts->samples, 4U + 15U);
    EXPECT_EQ(facts->measured_at_s, kWallClock);
  }
  const LinkFacts* inside = link(profile, "", "", Level::building);
  ASSERT_NE(inside, nullptr);
  EXPECT_EQ(inside->latency_ns, truth.near_ns);
  EXPECT_NEAR(static_cast<double>(inside->stream_bytes_per_s), truth.near_rate, 0.01 * truth.near_rate);
  const LinkFacts* host = link(profile, "", "", Level::host);
  ASSERT_NE(host, nullptr);
  EXPECT_EQ(host->confidence, Confidence::prior) << "each host has one rank";
  EXPECT_EQ(profile.machine.reduce_bytes_per_s, 7'000'000'000U);
  EXPECT_EQ(profile.machine.copy_bytes_per_s, 9'000'000'000U);
  EXPECT_EQ(profile.machine.confidence, Confidence::measured);
}

TEST(Survey, SharedLinksAreFound) {
  const Profile profile = survey("2x4", {.cut_rate = 40e6});
  const LinkFacts* facts = link(profile, "b0", "b1");
  ASSERT_NE(facts, nullptr);
  EXPECT_NEAR(static_cast<double>(facts->stream_bytes_per_s), 25e6, 0.25e6);
  EXPECT_NEAR(static_cast<double>(facts->cut_bytes_per_s), 40e6, 0.4e6);
}

TEST(Survey, OneRankAtASiteHasTheLinkAlone) {
  const Profile profile = survey("2x1", {});
  const LinkFacts* facts = link(profile, "b0", "b1");
  ASSERT_NE(facts, nullptr);
  EXPECT_EQ(facts->cut_bytes_per_s, facts->stream_bytes_per_s);
}

TEST(Survey, BudgetHolds) {
  for (const TimeNs far_ns : {kMillisecondNs, 10 * kMillisecondNs, 40 * kMillisecondNs}) {
    for (const double rate : {1e6, 30e6, 1e9}) {
      TimeNs elapsed = 0;
      const Profile profile = survey("4x2", {.far_ns = far_ns, .far_rate = rate}, 2 * kSecondNs, &elapsed);
      SurveyPlan first(*parse_layout("4x2"));
      TimeNs rough = 0;
      carry_out(first, {.far_ns = far_ns, .far_rate = rate}, rough);
      EXPECT_LE(elapsed, std::max(rough, 2100 * kMillisecondNs)) << far_ns << " " << rate;
      ASSERT_NE(link(profile, "b0", "b3"), nullptr);
      EXPECT_NEAR(static_cast<double>(link(profile, "b0", "b3")->stream_bytes_per_s), rate, 0.1 * rate);
    }
  }
}

TEST(Survey, WithoutABudgetOnlyTheFirstLookIsTaken) {
  const Profile profile = survey("2x2", {}, 0);
  const LinkFacts* facts = link(profile, "b0", "b1");
  ASSERT_NE(facts, nullptr);
  EXPECT_EQ(facts->samples, 4U);
  EXPECT_NEAR(static_cast<double>(facts->stream_bytes_per_s), 25e6, 0.25e6);
  EXPECT_EQ(facts->cut_bytes_per_s, facts->stream_bytes_per_s) << "not measured";
}

TEST(Survey, EqualResultsMakeEqualPhases) {
  SurveyPlan a(*parse_layout("3x2")), b(*parse_layout("3x2"));
  TimeNs elapsed_a = 0, elapsed_b = 0;
  while (!a.experiments().empty()) {
    ASSERT_EQ(a.result_count(), b.result_count());
    carry_out(a, {}, elapsed_a);
    carry_out(b, {}, elapsed_b);
  }
  EXPECT_TRUE(b.experiments().empty());
  EXPECT_EQ(to_json(a.profile()), to_json(b.profile()));
}

}  // namespace
}  // namespace isthmus::topology
