// SPDX-License-Identifier: Apache-2.0
// Hierarchies of exact algorithms beside their proofs (tests/plan): how many bytes leave a site, whoever lies where; what they become where
// there is nothing to be gained.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "collectives/registry.h"
#include "worlds.h"

namespace isthmus::collectives {
namespace {

using plan::Algorithm;
using plan::Plan;

constexpr uint64_t kCount = 13 * 16 * 60;  // many cells' worth, in every grid below

std::vector<Plan> world_of(std::string_view name, Collective collective, const std::vector<int32_t>& sites, uint32_t segments = 3) {
  const Algorithm* algorithm = find(collective, name);
  EXPECT_NE(algorithm, nullptr) << name;
  auto built = plan::build_world(*algorithm, {.collective = collective,
                                              .group = {.ranks = {}, .size = static_cast<int32_t>(sites.size())},
                                              .root = is_rooted(collective) ? 1 : -1,
                                              .segments = segments,
                                              .sites = sites});
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

uint64_t bytes_across(Collective collective, const Placement& where, uint64_t count) {
  bool levels_tell = true;
  const uint64_t bytes = plan::bytes_across(world_of("hierarchy", collective, where.sites), where.sites, count, 4, levels_tell);
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

TEST(Hierarchies, AreDirectWithoutSites) {
  const std::vector<int32_t> same(5, 0);
  const std::vector<int32_t> apart = {0, 1, 2, 3, 4};
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather}) {
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
