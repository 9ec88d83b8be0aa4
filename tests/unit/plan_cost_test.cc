// SPDX-License-Identifier: Apache-2.0
// The cost walk against closed forms, and the printer's three formats.
#include "plan/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/print.h"
#include "worlds.h"

namespace isthmus::plan {
namespace {

using testing::HasSubstr;

std::vector<Plan> world_of(Collective collective, std::string_view name, int32_t ranks, int32_t root = -1) {
  const Shape shape = {.collective = collective, .group = {.ranks = {}, .size = ranks, .position = 0}, .root = root};
  auto world = build_world(*collectives::find(collective, name), shape);
  EXPECT_TRUE(world.ok()) << world.status().text();
  return world.ok() ? std::move(*world) : std::vector<Plan>{};
}

CostModel uniform(LinkCost link) {
  CostModel model;
  model.link = [link](int, int) { return link; };
  return model;
}

Cost cost_of(World world, uint64_t count, const CostModel& model, bool with_times = false) {
  auto result = cost(world, count, 4, model, {.with_times = with_times});
  EXPECT_TRUE(result.ok()) << result.status().text();
  return result.ok() ? std::move(*result) : Cost{};
}

constexpr TimeNs kLatency = 1000;

TEST(PlanCost, RingTakesTwiceTheRoundsOfItsChunks) {
  constexpr int kRanks = 4;
  constexpr uint64_t kCount = 4000;
  const auto world = world_of(Collective::allreduce, "ring", kRanks);
  // 1 byte a nanosecond: each of 2(P-1) rounds takes a chunk's bytes plus the latency, and nothing else costs.
  const Cost result = cost_of(world, kCount, uniform({.latency_ns = kLatency, .rate_bytes_per_s = 1e9}));
  constexpr uint64_t kChunkBytes = kCount / kRanks * 4;
  EXPECT_NEAR(static_cast<double>(result.total_ns), 2 * (kRanks - 1) * static_cast<double>(kChunkBytes + kLatency), 6.0 * 64);
  EXPECT_EQ(result.longest_chain, 2U * (kRanks - 1));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_NEAR(static_cast<double>(result.sent_bytes[static_cast<size_t>(rank)]), 2.0 * (kRanks - 1) * kChunkBytes, 6.0 * 64);
    EXPECT_EQ(result.sent_messages[static_cast<size_t>(rank)], 2U * (kRanks - 1));
  }
}

TEST(PlanCost, IsGivenUpAtTheLimit) {
  const auto world = world_of(Collective::allreduce, "ring", 4);
  const CostModel model = uniform({.latency_ns = kLatency, .rate_bytes_per_s = 1e9});
  const Cost whole = cost_of(world, 4000, model);
  EXPECT_FALSE(whole.given_up);
  const Cost allowed = cost(world, 4000, 4, model, {.limit_ns = whole.total_ns}).value();
  EXPECT_FALSE(allowed.given_up);
  EXPECT_EQ(allowed.total_ns, whole.total_ns);
  const Cost less = cost(world, 4000, 4, model, {.limit_ns = whole.total_ns - 1}).value();
  EXPECT_TRUE(less.given_up);
  EXPECT_GT(less.total_ns, whole.total_ns - 1);
}

TEST(PlanCost, BinomialBroadcastTakesLogarithmicallyManyMessages) {
  const auto world = world_of(Collective::broadcast, "binomial", 8, 0);
  const Cost result = cost_of(world, 1, uniform({.latency_ns = kLatency}));
  EXPECT_EQ(result.longest_chain, 3U);
  EXPECT_EQ(result.total_ns, 3 * kLatency);
}

TEST(PlanCost, OverheadsAndComputingOccupyTheRank) {
  const auto world = world_of(Collective::allreduce, "one_shot", 3);
  constexpr TimeNs kOverhead = 100;
  CostModel model = uniform({.latency_ns = kLatency, .overhead_ns = kOverhead});
  model.reduce_bytes_per_s = 1e9;
  const Cost result = cost_of(world, 250, model);  // 1000 bytes, 1000 ns to add
  // Two sends one after the other, latency, landing, two additions.
  EXPECT_GE(result.total_ns, kOverhead + kLatency + kOverhead + 2 * 1000);
  EXPECT_LE(result.total_ns, 2 * kOverhead + kLatency + 2 * kOverhead + 2 * 1000);
}

TEST(PlanCost, ACutIsShared) {
  // Ranks 0, 1 | 2, 3: a direct allgather sends four messages each way through the cut.
  const auto world = world_of(Collective::allgather, "direct", 4);
  CostModel model = uniform({});
  const plan::LinkCost uplink = {.latency_ns = kLatency, .rate_bytes_per_s = 1e9};
  const std::vector<SharedLink> uplinks = {{.id = 0, .cost = uplink}, {.id = 1, .cost = uplink}};
  model.shared = [&](int from, int to) {
    return from / 2 == to / 2 ? std::span<const SharedLink>() : std::span(uplinks).subspan(static_cast<size_t>(from) / 2, 1);
  };
  constexpr uint64_t kCount = 1024;
  EXPECT_EQ(cost_of(world, kCount, model).total_ns, static_cast<TimeNs>(4 * kCount * 4) + kLatency);
}

TEST(PlanCost, WhatIsSharedTwiceIsWaitedForTwice) {
  // As above, but all messages also enter through one slower downlink.
  const auto world = world_of(Collective::allgather, "direct", 4);
  CostModel model = uniform({});
  const std::vector<SharedLink> way = {{.id = 3, .cost = {.rate_bytes_per_s = 1e9}}, {.id = 1, .cost = {.rate_bytes_per_s = 5e8}}};
  model.shared = [&](int, int) { return std::span(way); };
  constexpr uint64_t kCount = 1024;
  EXPECT_EQ(cost_of(world, kCount, model).total_ns, static_cast<TimeNs>(12 * kCount * 4 * 2));
}

TEST(PlanCost, RanksOfAHostShareItsCpus) {
  const auto world = world_of(Collective::allreduce, "one_shot", 4);
  CostModel model = uniform({.overhead_ns = 100});
  const TimeNs alone = cost_of(world, 1, model).total_ns;
  const std::vector<int32_t> hosts(4, 0), one_cpu = {1}, two_cpus = {2};
  model.hosts = hosts;
  model.cpus_of_hosts = one_cpu;
  EXPECT_EQ(cost_of(world, 1, model).total_ns, 4 * alone);
  model.cpus_of_hosts = two_cpus;
  EXPECT_GE(cost_of(world, 1, model).total_ns, 2 * alone);
  EXPECT_LT(cost_of(world, 1, model).total_ns, 3 * alone);  // work is not moved between CPUs afterwards
}

TEST(PlanCost, GapsAreLinearBetweenKnots) {
  const std::vector<Knot> gaps = {{.bytes = 100, .gap_ns = 1000}, {.bytes = 300, .gap_ns = 2000}, {.bytes = 400, .gap_ns = 4000}};
  const LinkCost link = {.rate_bytes_per_s = 1, .gaps = gaps};
  EXPECT_EQ(occupancy_ns(link, 0), 0);
  EXPECT_EQ(occupancy_ns(link, 50), 500);
  EXPECT_EQ(occupancy_ns(link, 100), 1000);
  EXPECT_EQ(occupancy_ns(link, 200), 1500);
  EXPECT_EQ(occupancy_ns(link, 350), 3000);
  EXPECT_EQ(occupancy_ns(link, 500), 6000);
  EXPECT_EQ(occupancy_ns({.rate_bytes_per_s = 1e9, .gaps = std::span(gaps).first(1)}, 200), 2000);
  EXPECT_EQ(occupancy_ns({.rate_bytes_per_s = 1e9}, 200), 200);
}

TEST(PlanCost, EmptyCellsTravelNowhere) {
  const auto world = world_of(Collective::allreduce, "ring", 4);
  const Cost nothing = cost_of(world, 0, uniform({.latency_ns = kLatency}));
  EXPECT_EQ(nothing.total_ns, 0);
  EXPECT_EQ(nothing.sent_messages[0], 0U);
  const Cost one = cost_of(world, 1, uniform({.latency_ns = kLatency}));
  EXPECT_EQ(one.longest_chain, 6U);  // one cell goes all the way
}

TEST(PlanCost, StallsAreErrors) {
  auto world = world_of(Collective::allreduce, "one_shot", 2);
  world[0].steps.back().ordinal = 5;
  EXPECT_THAT(cost(world, 8, 4, CostModel{}).status().text(), HasSubstr("message number out of order"));
}

// --- the printer -----------------------------------------------------------------------------------------------------------

TEST(PlanPrint, AStepOnALine) {
  const auto world = world_of(Collective::allreduce, "ring", 4);
  const std::string text = to_text(world[1], 1);
  EXPECT_THAT(text, HasSubstr("1 recv_reduce from   0"));
  EXPECT_THAT(text, HasSubstr(" sum message  #0  slot 0"));
  EXPECT_THAT(text, HasSubstr("phases.cc:"));
  EXPECT_THAT(to_text(world[1], 0), HasSubstr("in place"));
  EXPECT_THAT(to_text(world[1]), HasSubstr("allreduce/ring rank 1 of 4"));
}

TEST(PlanPrint, DotHasANodePerStepAndAnEdgePerMessage) {
  const auto world = world_of(Collective::allreduce, "ring", 3);
  const std::string dot = to_dot(world);
  const auto count = [&](std::string_view what) {
    size_t found = 0;
    for (size_t at = dot.find(what); at != std::string::npos; at = dot.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("subgraph"), 3U);
  EXPECT_EQ(count("[label="), 3U * world[0].steps.size());
  EXPECT_EQ(count("color=blue"), 3U * 4U);
}

TEST(PlanPrint, TheChromeTraceIsJson) {
  const auto world = world_of(Collective::allreduce, "ring", 3);
  const Cost result = cost_of(world, 300, uniform({.latency_ns = kLatency, .rate_bytes_per_s = 1e9}), true);
  size_t steps = 0;
  for (const Plan& plan : world) steps += plan.steps.size();
  EXPECT_EQ(result.times.size(), steps);
  const auto trace = nlohmann::json::parse(to_chrome_trace(world, result));
  ASSERT_EQ(trace["traceEvents"].size(), steps);
  for (const auto& event : trace["traceEvents"]) EXPECT_GE(event["dur"].get<double>(), 0);
}

}  // namespace
}  // namespace isthmus::plan
