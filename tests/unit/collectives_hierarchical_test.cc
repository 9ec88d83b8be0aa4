// SPDX-License-Identifier: Apache-2.0
// Hierarchies of exact algorithms beside their proofs (tests/plan): how many bytes leave a site, whoever lies where; what they become where
// there is nothing to be gained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "collectives/registry.h"
#include "plan/plan.h"
#include "worlds.h"

namespace isthmus::collectives {
namespace {

using plan::Algorithm;
using plan::Plan;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr uint64_t kCount = 13 * 16 * 60;  // many cells' worth, in every grid below

std::vector<Plan> world_of(std::string_view name, Collective collective, const std::vector<int32_t>& sites, uint32_t segments = 3,
                           uint32_t leaders = 0, plan::Across across = plan::Across::direct) {
  const Algorithm* algorithm = find(collective, name);
  EXPECT_NE(algorithm, nullptr) << name;
  auto built = plan::build_world(*algorithm, {.collective = collective,
                                              .group = {.ranks = {}, .size = static_cast<int32_t>(sites.size())},
                                              .root = is_rooted(collective) ? 1 : -1,
                                              .segments = segments,
                                              .sites = sites,
                                              .leaders = leaders,
                                              .across = across});
  EXPECT_TRUE(built.ok()) << built.status().text();
  return built.ok() ? std::move(*built) : std::vector<Plan>();
}

struct Placement {
  std::vector<int32_t> sites;
  uint64_t count = 2;  ///< of sites
};

const Placement kPlacements[] = {
    {{0, 0, 0, 0, 1, 1, 1, 1}},    {{0, 1, 0, 1, 0, 1, 0, 1}}, {{0, 1, 1, 0, 1, 1, 0, 1}}, {{5, 5, 5, 9}},
    {{2, 0, 1, 2, 2, 0, 1, 1}, 3}, {{0, 0, 1, 2, 2, 2, 3}, 4},
};

uint64_t bytes_across(Collective collective, const Placement& where, uint64_t count, plan::Across across = plan::Across::direct) {
  bool levels_tell = true;
  const std::vector<Plan> world = world_of("hierarchy", collective, where.sites, 3, 0, across);
  const uint64_t bytes = plan::bytes_across(world, where.sites, count, 4, levels_tell);
  EXPECT_TRUE(levels_tell) << name_of(collective);
  return bytes;
}

TEST(Hierarchies, CrossAsLittleAsCanBe) {
  for (const Placement& where : kPlacements) {
    SCOPED_TRACE(fmt::format("{} ranks at {} sites", where.sites.size(), where.count));
    const uint64_t once = 4 * kCount * (where.count - 1);
    EXPECT_EQ(bytes_across(Collective::allreduce, where, kCount), 2 * once) << "each share's sum is made of the sites' and told to them";
    EXPECT_EQ(bytes_across(Collective::reduce_scatter, where, kCount), where.sites.size() * once)
        << "each block's sums come from the others";
    EXPECT_EQ(bytes_across(Collective::allgather, where, kCount), where.sites.size() * once) << "each block comes to the others";
    EXPECT_EQ(bytes_across(Collective::broadcast, where, kCount), once);
    EXPECT_EQ(bytes_across(Collective::reduce, where, kCount), once);
  }
}

/// Regions, then buildings: region 0 has buildings of 3 ranks and 1, region 1 of 2, 2 and 1, out of order.
const std::vector<int32_t> kTree = {0, 1, 1, 0, 1, 0, 1, 0, 1, /**/ 7, 3, 4, 7, 3, 8, 5, 7, 4};
constexpr size_t kTreeRanks = 9;

/// Bytes that cross between buildings of one region, and between regions; each message must be at the level that it crosses.
std::array<uint64_t, 2> bytes_by_level(Collective collective) {
  std::array<uint64_t, 2> bytes = {};
  const Algorithm* algorithm = find(collective, "hierarchy");
  const auto built = plan::build_world(*algorithm, {.collective = collective,
                                                    .group = {.ranks = {}, .size = kTreeRanks},
                                                    .root = is_rooted(collective) ? 1 : -1,
                                                    .segments = 2,
                                                    .sites = kTree});
  EXPECT_TRUE(built.ok()) << built.status().text();
  if (!built.ok()) return bytes;
  plan::Binding binding;
  plan::bind((*built)[0].grid, kCount, binding);
  for (const Plan& plan : *built) {
    for (const plan::Step& step : plan.steps) {
      if (step.kind != plan::StepKind::send) continue;
      const auto differ = [&](size_t from) {
        return kTree[from + static_cast<size_t>(plan.rank)] != kTree[from + static_cast<size_t>(step.peer)];
      };
      const size_t level = differ(0) ? 2 : differ(kTreeRanks) ? 1 : 0;
      EXPECT_EQ(step.level, level) << name_of(collective) << " from " << plan.rank << " to " << step.peer;
      if (level > 0) bytes[level - 1] += plan::chunk_bytes(plan, step.src(), binding, 4);
    }
  }
  return bytes;
}

TEST(Hierarchies, CrossAsLittleAsCanBeAtEveryLevel) {
  const uint64_t once = 4 * kCount, all = once * kTreeRanks;
  EXPECT_THAT(bytes_by_level(Collective::allreduce), ElementsAre(2 * 3 * once, 2 * once)) << "up and down, within each region";
  EXPECT_THAT(bytes_by_level(Collective::reduce_scatter), ElementsAre(3 * all, all));
  EXPECT_THAT(bytes_by_level(Collective::allgather), ElementsAre(3 * all, all));
  EXPECT_THAT(bytes_by_level(Collective::broadcast), ElementsAre(3 * once, once));
  EXPECT_THAT(bytes_by_level(Collective::reduce), ElementsAre(3 * once, once));
}

TEST(Hierarchies, EveryRankTakesItsPartAtEveryLevel) {
  const std::vector<int32_t> even = {0, 0, 0, 0, 1, 1, 1, 1, /**/ 0, 0, 1, 1, 2, 2, 3, 3};  // two buildings of two hosts of two ranks
  const Algorithm* algorithm = find(Collective::allreduce, "hierarchy");
  const auto built = plan::build_world(*algorithm, {.group = {.ranks = {}, .size = 8}, .sites = even});
  ASSERT_TRUE(built.ok()) << built.status().text();
  for (const Plan& plan : *built) {
    std::array<uint32_t, 3> cells = {};
    for (const plan::Step& step : plan.steps) cells[step.level] += step.kind == plan::StepKind::send ? step.cells : 0;
    EXPECT_THAT(cells, ElementsAre(2 * 2, 2 * 1, 1)) << "of four shares, from rank " << plan.rank;
  }
}

TEST(Hierarchies, AllLeadersOfASiteShareTheWayOut) {
  const std::vector<int32_t> sites = {0, 1, 0, 1, 0, 1};
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather}) {
    for (const Plan& plan : world_of("hierarchy", collective, sites)) {
      const auto crossing = std::count_if(plan.steps.begin(), plan.steps.end(),
                                          [](const plan::Step& step) { return step.kind == plan::StepKind::send && step.level == 1; });
      EXPECT_EQ(crossing, 3) << name_of(collective) << ": one message in each segment, from rank " << plan.rank;
    }
  }
}

/// Messages of an all-to-all that leave each site.
std::map<int32_t, size_t> crossing(std::string_view name, const std::vector<int32_t>& sites, uint32_t segments) {
  std::map<int32_t, size_t> messages;
  for (const Plan& plan : world_of(name, Collective::alltoall, sites, segments)) {
    const int32_t site = sites[static_cast<size_t>(plan.rank)];
    for (const plan::Step& step : plan.steps) {
      const bool crosses = step.kind == plan::StepKind::send && sites[static_cast<size_t>(step.peer)] != site;
      messages[site] += crosses ? 1 : 0;
    }
  }
  return messages;
}

TEST(Hierarchies, HaveAsManyLeadersAsAskedFor) {
  const std::vector<int32_t> sites = {0, 1, 0, 1, 0, 1, 1};
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather, Collective::alltoall}) {
    for (const uint32_t leaders : {1, 2}) {
      std::map<int32_t, std::set<int32_t>> speakers;  // by site; of an allgather those who hear for it
      for (const Plan& plan : world_of("hierarchy", collective, sites, 1, leaders)) {
        for (const plan::Step& step : plan.steps) {
          const bool speaks = collective == Collective::allgather ? step.receives() : step.kind == plan::StepKind::send;
          if (step.is_message() && speaks && step.level == 1) speakers[sites[static_cast<size_t>(plan.rank)]].insert(plan.rank);
        }
      }
      for (const auto& [site, ranks] : speakers) EXPECT_EQ(ranks.size(), leaders) << name_of(collective) << " site " << site;
    }
  }
}

TEST(Hierarchies, AllToAllCrossesInFewMessages) {
  const std::vector<int32_t> even = {0, 1, 0, 1, 0, 1}, uneven = {0, 0, 0, 1, 1, 1, 1, 1}, three = {0, 0, 1, 1, 2, 2};
  EXPECT_THAT(crossing("direct", even, 1), ElementsAre(Pair(0, 9), Pair(1, 9)));
  EXPECT_THAT(crossing("hierarchy", even, 1), ElementsAre(Pair(0, 3), Pair(1, 3)));
  EXPECT_THAT(crossing("hierarchy", even, 2), ElementsAre(Pair(0, 6), Pair(1, 6)));
  EXPECT_THAT(crossing("hierarchy", uneven, 1), ElementsAre(Pair(0, 5), Pair(1, 3)));
  EXPECT_THAT(crossing("hierarchy", three, 1), ElementsAre(Pair(0, 4), Pair(1, 4), Pair(2, 4)));
  for (const Placement& where : kPlacements) {
    uint64_t pairs = 0;
    for (const int32_t from : where.sites) {
      pairs += where.sites.size() - static_cast<uint64_t>(std::count(where.sites.begin(), where.sites.end(), from));
    }
    EXPECT_EQ(bytes_across(Collective::alltoall, where, kCount), 4 * kCount * pairs);
  }
}

// Four sites of two ranks, three of which lie apart from the others of theirs; three sites, one of them of one rank.
const std::vector<int32_t> kFourSites = {0, 0, 1, 2, 3, 1, 2, 3}, kThreeSites = {4, 9, 4, 9, 4, 7};

/// Between which sites there are messages.
std::set<std::pair<int32_t, int32_t>> site_pairs(Collective collective, const std::vector<int32_t>& sites, plan::Across across) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const Plan& plan : world_of("hierarchy", collective, sites, 2, 0, across)) {
    for (const plan::Step& step : plan.steps) {
      const int32_t from = sites[static_cast<size_t>(plan.rank)], to = step.is_message() ? sites[static_cast<size_t>(step.peer)] : from;
      if (step.kind == plan::StepKind::send && from != to) pairs.insert({from, to});
    }
  }
  return pairs;
}

TEST(Hierarchies, AroundARingOfSitesEachTalksWithTwoOthers) {
  const std::set<std::pair<int32_t, int32_t>> ring = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather}) {
    EXPECT_EQ(site_pairs(collective, kFourSites, plan::Across::ring), ring) << name_of(collective);
    EXPECT_EQ(site_pairs(collective, kFourSites, plan::Across::direct).size(), 12U) << name_of(collective);
  }
}

TEST(Hierarchies, AroundARingOfSitesAsLittleCrossesAsDirectly) {
  for (const Placement& where : {Placement{kFourSites, 4}, Placement{kThreeSites, 3}, kPlacements[0], kPlacements[3]}) {
    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather}) {
      EXPECT_EQ(bytes_across(collective, where, kCount, plan::Across::ring), bytes_across(collective, where, kCount))
          << name_of(collective);
    }
  }
}

TEST(Hierarchies, WholeSumsCrossInOneShotAndByDoubling) {
  const uint64_t once = 4 * kCount;
  const auto crossing = [](const Placement& where, plan::Across across) {
    return bytes_across(Collective::allreduce, where, kCount, across);
  };
  EXPECT_EQ(crossing({kFourSites, 4}, plan::Across::one_shot), 4 * 3 * once);
  EXPECT_EQ(crossing({kFourSites, 4}, plan::Across::recursive_doubling), 4 * 2 * once);
  EXPECT_EQ(crossing({kThreeSites, 3}, plan::Across::one_shot), 3 * 2 * once);
  EXPECT_EQ(crossing({kThreeSites, 3}, plan::Across::recursive_doubling), (1 + 2 + 1) * once) << "the third hands its sum to a neighbour";
}

TEST(Hierarchies, BetweenTwoSitesOneShotIsTheDirectWay) {
  const std::vector<int32_t> sites = {0, 1, 0, 1, 0};
  const auto direct = world_of("hierarchy", Collective::allreduce, sites);
  const auto one_shot = world_of("hierarchy", Collective::allreduce, sites, 3, 0, plan::Across::one_shot);
  ASSERT_EQ(one_shot.size(), direct.size());
  for (size_t rank = 0; rank < direct.size(); ++rank) EXPECT_EQ(one_shot[rank].hash(), direct[rank].hash());
}

TEST(Hierarchies, AreDirectWithoutSites) {
  const std::vector<int32_t> same(5, 0);
  const std::vector<int32_t> apart = {0, 1, 2, 3, 4};
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather, Collective::alltoall}) {
    const auto sends = [&](const std::vector<Plan>& world) {
      size_t count = 0;
      for (const Plan& plan : world) {
        for (const plan::Step& step : plan.steps) count += step.kind == plan::StepKind::send ? 1 : 0;
      }
      return count;
    };
    const size_t direct = sends(world_of("direct", collective, same));
    EXPECT_EQ(sends(world_of("hierarchy", collective, same)), direct) << name_of(collective);
    EXPECT_EQ(sends(world_of("hierarchy", collective, apart)), direct) << name_of(collective);
  }
}

}  // namespace
}  // namespace isthmus::collectives
