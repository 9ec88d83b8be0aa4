// SPDX-License-Identifier: Apache-2.0
// topology/model.h: members and trees of places, and what does not fit together.
#include "topology/model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::topology {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Claim claim(Level level, std::string name, Rung rung = Rung::setting) {
  std::string source = fmt::format("the {}", name_of(rung));
  return {.level = level, .name = std::move(name), .rung = rung, .source = std::move(source)};
}

Place place(uint64_t host, std::vector<Claim> claims) {
  return {.host_id = host, .hostname = fmt::format("h{}", host), .claims = std::move(claims)};
}

/// Region, building and zone by a setting; "" is not known.
Place at(uint64_t host, std::string region, std::string building, std::string zone) {
  Place made = place(host, {});
  if (!region.empty()) made.claims.push_back(claim(Level::region, std::move(region)));
  if (!building.empty()) made.claims.push_back(claim(Level::building, std::move(building)));
  if (!zone.empty()) made.claims.push_back(claim(Level::zone, std::move(zone)));
  return made;
}

/// "region eu(building fra1(host h1 host h2))"
std::string text_of(const Node& node) {
  std::string text = node.level ? fmt::format("{} {}", name_of(*node.level), node.name) : "job";
  if (node.children.empty()) return text;
  text += '(';
  for (const Node& child : node.children) text += fmt::format("{}{}", text.back() == '(' ? "" : " ", text_of(child));
  return text + ')';
}

TEST(Levels, NamesAreReadInAnyCase) {
  EXPECT_EQ(level_named("Building"), Level::building);
  EXPECT_EQ(level_named("host"), Level::host);
  EXPECT_EQ(level_named("rack"), std::nullopt);
}

TEST(Members, TheFirstClaimOfALevelCounts) {
  const Place both = place(1, {claim(Level::building, "a"), claim(Level::zone, "r"), claim(Level::building, "b", Rung::file)});
  ASSERT_NE(both.at(Level::building), nullptr);
  EXPECT_EQ(both.at(Level::building)->name, "a");
  EXPECT_EQ(both.at(Level::region), nullptr);
}

TEST(Members, ArePathsFromTheOutermostLevelThatIsKnown) {
  EXPECT_EQ(member_of(at(1, "eu", "fra1", "r1"), Level::zone), "eu/fra1/r1");
  EXPECT_EQ(member_of(at(1, "eu", "fra1", "r1"), Level::building), "eu/fra1");
  EXPECT_EQ(member_of(at(1, "eu", "fra1", "r1"), Level::region), "eu");
  EXPECT_EQ(member_of(at(1, "", "fra1", ""), Level::building), "fra1") << "ISTHMUS_SITE alone is the site's name";
  EXPECT_EQ(member_of(at(1, "eu", "", "r1"), Level::zone), "eu/r1");
}

TEST(Members, WhatIsNotNamedIsToldByTheLevelBelow) {
  EXPECT_EQ(member_of(at(1, "eu", "", "r1"), Level::building), "eu/zone:r1");
  EXPECT_EQ(member_of(at(1, "", "fra1", "r1"), Level::region), "building:fra1");
  EXPECT_EQ(member_of(at(1, "eu", "", ""), Level::building), "") << "a region says nothing about buildings";
  EXPECT_EQ(member_of(at(1, "eu", "fra1", ""), Level::zone), "");
}

TEST(Members, AreNumberedByFirstAppearance) {
  const std::vector<Place> places = {at(1, "", "b", ""), at(2, "", "a", ""), at(3, "", "b", ""),
                                     at(4, "", "", ""),  at(4, "", "", ""),  at(5, "", "", "")};
  EXPECT_THAT(members_by_rank(places, Level::building), ElementsAre(0, 1, 0, 2, 2, 3)) << "hosts of no known building stand alone";
  EXPECT_THAT(members_by_rank(places, Level::host), ElementsAre(0, 1, 2, 3, 3, 4));
}

TEST(Members, ZonesOfOneNameInTwoBuildingsAreTwo) {
  const std::vector<Place> places = {at(1, "", "a", "r1"), at(2, "", "b", "r1"), at(3, "", "a", "r1")};
  EXPECT_THAT(members_by_rank(places, Level::zone), ElementsAre(0, 1, 0));
}

TEST(CommonLevel, IsTheLowest) {
  const Place a = at(1, "eu", "fra1", "r1");
  EXPECT_EQ(common_level(a, a), Level::host);
  EXPECT_EQ(common_level(a, at(2, "eu", "fra1", "r1")), Level::zone);
  EXPECT_EQ(common_level(a, at(2, "eu", "fra1", "r2")), Level::building);
  EXPECT_EQ(common_level(a, at(2, "eu", "ams2", "r1")), Level::region);
  EXPECT_EQ(common_level(a, at(2, "us", "fra1", "r1")), std::nullopt);
  EXPECT_EQ(common_level(at(1, "", "", ""), at(2, "", "", "")), std::nullopt) << "not knowing is nothing in common";
}

TEST(WidestDivision, IsTheHighestLevelThatDivides) {
  const auto widest = [](std::vector<Place> places) { return widest_division(places); };
  EXPECT_EQ(widest({at(1, "eu", "a", ""), at(2, "us", "a", "")}), Level::region);
  EXPECT_EQ(widest({at(1, "eu", "a", ""), at(2, "eu", "b", "")}), Level::building);
  EXPECT_EQ(widest({at(1, "", "a", "r"), at(2, "", "a", "s")}), Level::zone);
  EXPECT_EQ(widest({at(1, "", "a", ""), at(2, "", "a", "")}), Level::host);
  EXPECT_EQ(widest({at(1, "", "", ""), at(2, "", "", "")}), Level::host);
  EXPECT_EQ(widest({at(1, "", "a", ""), at(1, "", "a", "")}), std::nullopt);
}

TEST(Tree, HoldsRanksAndLeavesOutWhatNobodyNames) {
  const Node job = make_tree(std::vector<Place>{at(1, "eu", "fra1", "r1"), at(2, "eu", "fra1", "r2"), at(1, "eu", "fra1", "r1"),
                                                at(3, "us", "", "r1"), at(4, "", "", "")});
  EXPECT_EQ(text_of(job), "job(region eu(building fra1(zone r1(host h1) zone r2(host h2))) region us(zone r1(host h3)) host h4)");
  EXPECT_THAT(job.ranks, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(job.children[0].ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(job.children[0].children[0].children[0].children[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(job.children[0].sources, ElementsAre("the setting"));
}

TEST(Tree, HostsOfOneNameAreTold) {
  Place a = at(1, "", "", ""), b = at(2, "", "", "");
  a.hostname = b.hostname = "localhost";
  EXPECT_EQ(text_of(make_tree(std::vector<Place>{a, b})), "job(host localhost host localhost)");
}

TEST(Contradictions, NoneWhereAllAgree) {
  EXPECT_THAT(contradictions(std::vector<Place>{at(1, "eu", "a", ""), at(2, "eu", "b", "")}), IsEmpty());
  EXPECT_THAT(contradictions({}), IsEmpty());
}

TEST(Contradictions, NamesInSettingsAndFiles) {
  const Place odd = place(1, {claim(Level::building, "a"), claim(Level::building, "b", Rung::file)});
  EXPECT_THAT(contradictions(std::vector{odd}), ElementsAre("the setting says building 'a', which counts, but the file says 'b'"));
  const Place same = place(2, {claim(Level::building, "a"), claim(Level::building, "a", Rung::file)});
  EXPECT_THAT(contradictions(std::vector{odd, same, odd}), testing::Contains(AllOf(HasSubstr("ranks 0,2: "), HasSubstr("'b'"))))
      << "said once for all ranks";
  const Place other_names = place(1, {claim(Level::building, "a"), claim(Level::building, "eu-1a", Rung::kubernetes)});
  EXPECT_THAT(contradictions(std::vector{other_names, other_names}), IsEmpty()) << "clouds have their own names";
}

TEST(Contradictions, RungsThatDivideRanksDifferently) {
  const auto both = [](uint64_t host, std::string building, std::string label) {
    return place(host, {claim(Level::building, std::move(building)), claim(Level::building, std::move(label), Rung::kubernetes)});
  };
  EXPECT_THAT(contradictions(std::vector{both(1, "a", "x"), both(2, "b", "y"), both(3, "a", "x")}), IsEmpty());
  EXPECT_THAT(contradictions(std::vector{both(1, "a", "x"), both(2, "a", "y"), both(3, "a", "z")}),
              ElementsAre("the setting puts ranks 0 and 1 into one building, which counts, but the kubernetes puts them into two"));
  EXPECT_THAT(contradictions(std::vector{both(1, "a", "x"), both(2, "b", "x")}),
              ElementsAre("the setting puts ranks 0 and 1 into two buildings, which counts, but the kubernetes puts them into one"));
}

TEST(Contradictions, OneHostInTwoPlaces) {
  EXPECT_THAT(contradictions(std::vector{at(7, "", "a", ""), at(7, "", "b", ""), at(7, "", "b", "")}),
              ElementsAre(AllOf(HasSubstr("ranks 0 and 1 are on host h7"), HasSubstr("building 'a'"), HasSubstr("'b'"))));
}

TEST(Contradictions, LevelsThatSomeDoNotKnow) {
  EXPECT_THAT(contradictions(std::vector{at(1, "", "a", ""), at(2, "", "", ""), at(3, "", "a", "")}),
              ElementsAre(AllOf(HasSubstr("rank 1: "), HasSubstr("building is not known"))));
}

}  // namespace
}  // namespace isthmus::topology
