// SPDX-License-Identifier: Apache-2.0
// Sites by round trips: what divides hosts, what does not, and that neither their order nor noise matters.
#include "topology/planner/clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/rng.h"

namespace isthmus::topology {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Hosts at sites; round trips within one and between two, of which the host's numbers change a little.
struct Net {
  std::vector<int32_t> sites;
  TimeNs near_ns = 40 * kMicrosecondNs, far_ns = 10 * kMillisecondNs;
  double noise = 0.4;

  [[nodiscard]] TimeNs time(int32_t a, int32_t b) const {
    const TimeNs usual = sites[static_cast<size_t>(a)] == sites[static_cast<size_t>(b)] ? near_ns : far_ns;
    return usual + static_cast<TimeNs>(noise * static_cast<double>(usual) * ((a * 7 + b * 13) % 10) / 10.0);
  }
  [[nodiscard]] std::vector<int32_t> found() const {
    return sites_by_round_trips(static_cast<int32_t>(sites.size()), [this](int32_t a, int32_t b) { return time(a, b); });
  }
};

/// Numbers in the order of first appearance.
std::vector<int32_t> renumbered(const std::vector<int32_t>& sites) {
  std::map<int32_t, int32_t> numbers;
  std::vector<int32_t> result;
  for (const int32_t site : sites) result.push_back(numbers.emplace(site, static_cast<int32_t>(numbers.size())).first->second);
  return result;
}

TEST(SitesByRoundTrips, FarHostsAreApart) {
  EXPECT_THAT(Net({.sites = {0, 0, 1, 1}}).found(), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(Net({.sites = {0, 1, 0, 2, 1}}).found(), ElementsAre(0, 1, 0, 2, 1));
  EXPECT_THAT(Net({.sites = {0, 1, 1}}).found(), ElementsAre(0, 1, 1));
}

TEST(SitesByRoundTrips, WhereNothingStandsOutThereIsOneSite) {
  EXPECT_THAT(Net({.sites = {}}).found(), IsEmpty());
  EXPECT_THAT(Net({.sites = {0}}).found(), ElementsAre(0));
  EXPECT_THAT(Net({.sites = {0, 1}}).found(), ElementsAre(0, 0));                                // nothing to compare with
  EXPECT_THAT(Net({.sites = {0, 1, 2, 3}}).found(), Each(0));                                    // all equally far
  EXPECT_THAT(Net({.sites = {0, 0, 0, 0}}).found(), Each(0));                                    // all equally near
  EXPECT_THAT(Net({.sites = {0, 0, 1, 1}, .far_ns = 90'000, .noise = 0}).found(), Each(0));      // near enough
  EXPECT_THAT(Net({.sites = {0, 0, 1, 1}, .near_ns = 4'000'000, .noise = 0}).found(), Each(0));  // 2.5 times as far
}

// 40 us within a building, 400 us on a campus, 20 ms between regions.
TEST(SitesByRoundTrips, TheWidestGapCounts) {
  const auto found = sites_by_round_trips(8, [](int32_t a, int32_t b) -> TimeNs {
    if (a / 2 == b / 2) return 40 * kMicrosecondNs;
    return a / 4 == b / 4 ? 400 * kMicrosecondNs : 20 * kMillisecondNs;
  });
  EXPECT_THAT(found, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

// Those who are linked by a chain of near hosts are together, however far the chain's ends.
TEST(SitesByRoundTrips, ChainsHoldTogether) {
  const auto found = sites_by_round_trips(6, [](int32_t a, int32_t b) -> TimeNs { return 200 * kMicrosecondNs * (b - a); });
  EXPECT_THAT(found, Each(0));
}

TEST(SitesByRoundTrips, AnyDivisionInAnyOrderIsFound) {
  CounterRng dice(3, 0);
  for (int attempt = 0; attempt < 500; ++attempt) {
    Net net;
    net.sites.push_back(0);  // two hosts are near each other at least, so that there is something to compare with
    const auto sites = 1 + static_cast<int32_t>(dice.below(6));
    for (int32_t site = 0; site < sites; ++site) net.sites.insert(net.sites.end(), 1 + dice.below(4), site);
    for (size_t i = net.sites.size() - 1; i > 0; --i) std::swap(net.sites[i], net.sites[dice.below(i + 1)]);
    net.far_ns = kMillisecondNs + static_cast<TimeNs>(dice.below(100'000'000));
    ASSERT_EQ(net.found(), renumbered(net.sites)) << "attempt " << attempt;
  }
}

}  // namespace
}  // namespace isthmus::topology
