// SPDX-License-Identifier: Apache-2.0
// Drift: which courses of residuals are said to be drift and which are not, what ranks see together, what a call is predicted to take, and
// how changes are put into words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "collectives/registry.h"
#include "topology/planner/forecast.h"
#include "topology/planner/residuals.h"

namespace isthmus::topology {
namespace {

using ::testing::HasSubstr;

constexpr TimeNs kPredicted = 10 * kMillisecondNs;

/// Calls that take `ratio` of what is predicted, give or take `noise`. How many until the verdict is `until`, or all.
int calls(Residuals& residuals, int count, double ratio, Verdict until, double noise = 0, uint64_t bytes = 1 << 20) {
  CounterRng dice(7, 0);
  for (int call = 1; call <= count; ++call) {
    const double share = static_cast<double>(dice.below(2001)) / 1000 - 1;  // -1 to 1
    const double time = static_cast<double>(kPredicted) * ratio * std::exp(noise * share);
    residuals.add(Collective::allreduce, bytes, static_cast<TimeNs>(time), kPredicted);
    if (residuals.verdict() == until) return call;
  }
  return count + 1;
}

int steady_calls(Residuals& residuals, int count, double ratio, double noise = 0) {
  for (const Verdict verdict : {Verdict::slower, Verdict::quicker}) EXPECT_GT(calls(residuals, count, ratio, verdict, noise), count);
  return count;
}

TEST(Residuals, NoiseIsNoDrift) {
  for (const double noise : {0.0, 0.1, 0.3, 0.5}) {
    Residuals residuals;
    steady_calls(residuals, 2000, 1, noise);
    EXPECT_EQ(residuals.text(), "") << noise;
  }
}

TEST(Residuals, LargeChangesAreSeenWithinFewCalls) {
  for (const double change : {2.0, 4.0, 100.0}) {
    Residuals slower, quicker;
    steady_calls(slower, 100, 1, 0.1);
    EXPECT_LE(calls(slower, 32, change, Verdict::slower, 0.1), 16) << change;
    steady_calls(quicker, 100, 1, 0.1);
    EXPECT_LE(calls(quicker, 32, 1 / change, Verdict::quicker, 0.1), 16) << change;
  }
}

TEST(Residuals, SmallChangesThatLastAreSeen) {
  Residuals residuals;
  steady_calls(residuals, 100, 1, 0.1);
  EXPECT_LE(calls(residuals, 200, 1.35, Verdict::slower, 0.1), 64);
  EXPECT_THAT(residuals.text(), HasSubstr("allreduce from 1048576 bytes takes 1."));
}

TEST(Residuals, ChangesWithinTheToleranceAreNot) {
  Residuals residuals;
  steady_calls(residuals, 100, 1, 0.1);
  steady_calls(residuals, 2000, 1.1, 0.1);
}

// A call that a rank came late to, or whose connection was stuck for a second.
TEST(Residuals, SingleCallsAreNoDrift) {
  Residuals residuals;
  steady_calls(residuals, 100, 1);
  for (int i = 0; i < 50; ++i) {
    steady_calls(residuals, 1, 1000);
    steady_calls(residuals, 40, 1);
  }
}

// Ranks that take turns in being late.
TEST(Residuals, AlternatingCallsAreNoDrift) {
  Residuals residuals;
  const auto pairs = [&](int count, TimeNs factor) {
    for (int call = 0; call < 2 * count; ++call) {
      residuals.add(Collective::allreduce, 1024, factor * (call % 2 == 0 ? kPredicted / 16 : 31 * kPredicted / 16), kPredicted);
    }
    return residuals.verdict();
  };
  EXPECT_EQ(pairs(200, 1), Verdict::steady);
  EXPECT_EQ(pairs(10, 4), Verdict::slower);
}

TEST(Residuals, WrongPredictionsAreNoDriftUpToAFactor) {
  Residuals residuals;
  steady_calls(residuals, 200, 1.9, 0.1);
  EXPECT_LE(calls(residuals, 100, 3.8, Verdict::slower, 0.1), 16);
  Residuals far;  // was already slow when it began
  EXPECT_EQ(calls(far, 100, 4, Verdict::slower), 32);
  far.restart(true);  // nothing was found
  steady_calls(far, 200, 4, 0.1);
  EXPECT_LE(calls(far, 100, 8, Verdict::slower, 0.1), 16);
}

TEST(Residuals, SizesAreToldApart) {
  Residuals residuals;
  for (int call = 0; call < 40; ++call) {
    residuals.add(Collective::allreduce, 1024, kPredicted, kPredicted);
    residuals.add(Collective::allreduce, 1 << 20, 3 * kPredicted / 2, kPredicted);
    residuals.add(Collective::allgather, 1024, 2 * kPredicted / 3, kPredicted);
  }
  EXPECT_EQ(residuals.verdict(), Verdict::steady);
  for (int call = 0; call < 20; ++call) residuals.add(Collective::allgather, 1500, 2 * kPredicted, kPredicted);
  EXPECT_EQ(residuals.verdict(), Verdict::slower);
  EXPECT_THAT(residuals.text(), HasSubstr("allgather from 1024 bytes"));
}

TEST(Residuals, WhatHasPassedIsSteadyAgain) {
  Residuals residuals;
  steady_calls(residuals, 100, 1);
  EXPECT_LE(calls(residuals, 100, 3, Verdict::slower), 16);
  EXPECT_LE(calls(residuals, 100, 1, Verdict::steady), 40);
}

TEST(CommonVerdict, HalfOfTheRanksAndNoContradiction) {
  using enum Verdict;
  EXPECT_EQ(common_verdict({}), steady);
  const std::vector<Verdict> one = {slower}, half = {steady, slower, slower, steady}, few = {steady, slower, steady, steady},
                             late = {slower, slower, quicker, slower}, quick = {quicker, steady, quicker};
  EXPECT_EQ(common_verdict(one), slower);
  EXPECT_EQ(common_verdict(half), slower);
  EXPECT_EQ(common_verdict(few), steady);
  EXPECT_EQ(common_verdict(late), steady);
  EXPECT_EQ(common_verdict(quick), quicker);
}

Profile profile_of(TimeNs latency_ns, uint64_t rate) {
  Profile profile = prior_profile();
  LinkFacts there{.within = std::nullopt, .from = "b0", .to = "b1", .latency_ns = latency_ns, .stream_bytes_per_s = rate, .gaps = {}};
  there.confidence = Confidence::measured;
  LinkFacts back = there;
  std::swap(back.from, back.to);
  profile.links.push_back(there);
  profile.links.push_back(back);
  return profile;
}

TEST(Forecast, LiesBetweenThePricesAroundTheSize) {
  const auto layout = parse_layout("2x2");
  ASSERT_TRUE(layout.ok());
  auto forecast = Forecast::make(*layout, profile_of(5 * kMillisecondNs, 25'000'000));
  ASSERT_TRUE(forecast.ok());
  const collectives::Choice ring{.algorithm = collectives::find(Collective::allreduce, "ring"), .segments = 1};
  TimeNs before = 0;
  for (uint64_t bytes = 1; bytes < (64 << 20); bytes += 1 + bytes / 3) {
    const auto time = (*forecast)->of(ring, bytes);
    ASSERT_TRUE(time.ok());
    EXPECT_GE(static_cast<double>(*time), 0.99 * static_cast<double>(before)) << bytes;
    before = *time;
  }
  const TimeNs low = (*forecast)->of(ring, 4 << 20).value(), high = (*forecast)->of(ring, 8 << 20).value();
  EXPECT_NEAR(static_cast<double>((*forecast)->of(ring, 6 << 20).value()), 0.5 * static_cast<double>(low + high), 1);
}

TEST(Changes, AreSaidWhereTheyMatter) {
  const Profile before = profile_of(5 * kMillisecondNs, 25'000'000);
  EXPECT_EQ(profile_changes(before, before), "");
  EXPECT_EQ(profile_changes(before, profile_of(5'500'000, 22'000'000)), "");
  const std::string farther = profile_changes(before, profile_of(20 * kMillisecondNs, 25'000'000));
  EXPECT_THAT(farther, HasSubstr("b0 -> b1: latency 5.00 ms, now 20.00 ms"));
  EXPECT_THAT(farther, HasSubstr("b1 -> b0"));
  EXPECT_THAT(profile_changes(before, profile_of(5 * kMillisecondNs, 6'000'000)), HasSubstr("one stream 25.0 MB/s, now 6.0"));
  EXPECT_EQ(profile_changes(profile_of(20'000, 25'000'000), profile_of(60'000, 25'000'000)), "");  // nobody waits for so little

  PlanFile plan, next;
  Interval one{.collective = Collective::allreduce,
               .choice = {collectives::find(Collective::allreduce, "ring"), 1},
               .at_bytes = 1024,
               .runner_up = {}};
  plan.intervals.push_back(one);
  EXPECT_EQ(plan_changes(plan, plan), "");
  one.choice.segments = 4;
  next.intervals.push_back(one);
  EXPECT_EQ(plan_changes(plan, next), "allreduce from 0 bytes: ring, now ring in 4 segments");
}

}  // namespace
}  // namespace isthmus::topology
