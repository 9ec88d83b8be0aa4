// SPDX-License-Identifier: Apache-2.0
// The planner's word on how sites exchange (plan::Across): bounds, prices, and what is chosen for near and far sites.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/registry.h"
#include "topology/planner/plan_file.h"

namespace isthmus::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

Scene scene_of(std::string_view layout, Profile profile) { return Scene::make(*parse_layout(layout), std::move(profile)).value(); }

const plan::Algorithm* allreduce(std::string_view name) { return collectives::find(Collective::allreduce, name); }

/// The assumptions, with sites that are so far apart.
Profile far_apart(TimeNs latency_ns) {
  Profile profile = prior_profile();
  for (LinkFacts& link : profile.links) {
    if (!link.within) link.latency_ns = latency_ns;
  }
  return profile;
}

TEST(Search, BoundsOfEveryWayAcrossAreBelowThePrices) {
  for (const char* layout : {"3x2", "4x2", "3+1+2+5", "5x2/cyclic", "6x1x2"}) {
    const Scene scene = scene_of(layout, far_apart(2'000'000));
    Pricer pricer(scene, UINT64_MAX);
    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather}) {
      const plan::Algorithm* hierarchy = collectives::find(collective, "hierarchy");
      const auto ways = pricer.formulas().ways_across(*hierarchy);
      EXPECT_THAT(ways, SizeIs(collective == Collective::allreduce ? 4 : 2));
      for (const plan::Across across : ways) {
        for (const uint64_t bytes : {uint64_t{8}, uint64_t{2048}, uint64_t{300'000}, uint64_t{4} << 20}) {
          for (const uint32_t leaders : {0U, 1U}) {
            const auto price = pricer.price({hierarchy, 2, leaders, across}, bytes).value();
            EXPECT_LE(price.bound_ns, price.time_ns + 500) << layout << " " << text_of(price.choice) << " " << bytes;
            EXPECT_GE(price.bound_ns, 2'000'000) << layout << " " << text_of(price.choice) << " " << bytes;
          }
        }
      }
    }
  }
}

TEST(Search, SmallSumsCrossFarSitesInOneShot) {
  Profile profile = far_apart(20'000'000);
  for (const char* building : {"b0", "b1", "b2", "b3"}) {
    LinkFacts uplink{.within = std::nullopt, .from = building, .to = {}, .gaps = {}};
    uplink.cut_bytes_per_s = 24'000'000;
    profile.links.push_back(uplink);
  }
  const Scene scene = scene_of("4x2", profile);
  const auto planned = search(scene, {.collectives = {Collective::allreduce}, .pins = {}});
  ASSERT_TRUE(planned.ok()) << planned.status().text();
  const auto chosen_at = [&](uint64_t bytes) {
    return std::find_if(planned->begin(), planned->end(), [&](const Interval& one) { return bytes <= one.max_bytes; })->choice;
  };
  Pricer pricer(scene, UINT64_MAX);
  const auto price = [&](plan::Across across, uint64_t bytes) {
    return pricer.price({allreduce("hierarchy"), 1, 0, across}, bytes)->time_ns;
  };
  constexpr uint64_t kSmall = 64 << 10, kLarge = 16 << 20;
  EXPECT_EQ(chosen_at(kSmall).algorithm, allreduce("hierarchy")) << text_of(chosen_at(kSmall));
  EXPECT_EQ(chosen_at(kSmall).across, plan::Across::one_shot) << text_of(chosen_at(kSmall));
  EXPECT_LT(price(plan::Across::one_shot, kSmall), 30'000'000) << "one latency, and 3 sums a site";
  EXPECT_GT(price(plan::Across::direct, kSmall), 40'000'000) << "two latencies";
  EXPECT_GT(price(plan::Across::one_shot, kLarge), price(plan::Across::direct, kLarge));
  EXPECT_NE(chosen_at(kLarge).across, plan::Across::one_shot) << text_of(chosen_at(kLarge));
}

TEST(Search, TwoSitesHaveOneWayAcross) {
  const Scene scene = scene_of("2x4", far_apart(2'000'000));
  EXPECT_THAT(Formulas(scene).ways_across(*allreduce("hierarchy")), ElementsAre(plan::Across::direct));
}

}  // namespace
}  // namespace isthmus::topology
