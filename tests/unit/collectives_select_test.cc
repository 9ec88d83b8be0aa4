// SPDX-License-Identifier: Apache-2.0
// The choice of algorithm: built-in rules cover every call, the user's word goes first, and what cannot be served is refused with the
// names of what can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/settings.h"
#include "collectives/registry.h"
#include "collectives/select.h"

namespace isthmus::collectives {
namespace {

using plan::Reach;
using testing::HasSubstr;

constexpr Reach kReaches[] = {Reach::process, Reach::host, Reach::network};

Selector selector(std::string_view forced, std::string_view rules = {}) {
  auto made = Selector::make(forced, rules);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return made.ok() ? *made : Selector();
}

std::string refusal(std::string_view forced, std::string_view rules = {}) {
  const auto made = Selector::make(forced, rules);
  EXPECT_FALSE(made.ok());
  return made.status().text();
}

struct Call {
  Collective collective;
  Reach reach;
  int32_t ranks;
  uint64_t bytes;
};

Result<Choice> choose(const Selector& selector, const Call& call) {
  return selector.narrow(call.reach, call.ranks).choose(call.collective, call.bytes);
}

std::string chosen(const Selector& selector, const Call& call) {
  const auto choice = choose(selector, call);
  return choice.ok() ? std::string(choice->algorithm->name) : choice.status().text();
}

TEST(Select, BuiltInRulesCoverEveryCall) {
  const Selector built_in = selector("");
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::sendrecv) continue;
    for (Reach reach : kReaches) {
      for (int32_t ranks : {1, 2, 3, 4, 7, 8, 64, 65, 127, 128, 4096}) {
        const Choices choices = built_in.narrow(reach, ranks);
        for (uint64_t bytes = 0; bytes < uint64_t{1} << 42; bytes = bytes * 5 + 1) {
          const auto choice = choices.choose(collective, bytes);
          ASSERT_TRUE(choice.ok()) << choice.status().text();
          EXPECT_EQ(choice->algorithm->collective, collective);
          EXPECT_TRUE(serves(*choice->algorithm, ranks));
          EXPECT_TRUE(allows_segments(*choice->algorithm, choice->segments));
        }
      }
    }
  }
}

TEST(Select, SmallAllreduceTakesFewestSteps) {
  for (Reach reach : {Reach::host, Reach::network}) {
    EXPECT_EQ(chosen(selector(""), {Collective::allreduce, reach, 16, 8}), "recursive_doubling");
  }
}

TEST(Select, ForcedNameServesEveryCollectiveThatHasIt) {
  const Selector ring = selector("ring");
  EXPECT_EQ(chosen(ring, {Collective::allreduce, Reach::host, 4, 8}), "ring");
  EXPECT_EQ(chosen(ring, {Collective::allgather, Reach::host, 4, 8}), "ring");
  EXPECT_EQ(chosen(ring, {Collective::broadcast, Reach::host, 4, 8}), "binomial");
}

TEST(Select, ForcedListNamesCollectivesAndSegments) {
  const Selector list = selector("allreduce:ring/8,broadcast:chain");
  EXPECT_EQ(*choose(list, {Collective::allreduce, Reach::network, 4, 8}), (Choice{find(Collective::allreduce, "ring"), 8}));
  EXPECT_EQ(*choose(list, {Collective::broadcast, Reach::network, 4, 8}), (Choice{find(Collective::broadcast, "chain"), 1}));
}

TEST(Select, ForcedWordsAndRulesSayHowSitesExchange) {
  const Choice wanted = {find(Collective::allreduce, "hierarchy"), 4, 2, plan::Across::recursive_doubling};
  const Call call = {Collective::allreduce, Reach::network, 4, 8};
  EXPECT_EQ(*choose(selector("allreduce:hierarchy/4/2/recursive_doubling"), call), wanted);
  EXPECT_EQ(*choose(selector("", "allreduce network hierarchy segments=4 leaders=2 across=recursive_doubling"), call), wanted);
  EXPECT_EQ(choose(selector("allreduce:hierarchy/4/2/direct"), call)->across, plan::Across::direct);
}

TEST(Select, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(refusal("rng"), HasSubstr("there is no algorithm \"rng\""));
  EXPECT_THAT(refusal("rng"), HasSubstr("halving_doubling"));
  EXPECT_THAT(refusal("allreduce:binomial"), HasSubstr("allreduce has no algorithm \"binomial\"; it has one_shot, recursive_doubling"));
  EXPECT_THAT(refusal("allreduc:ring"), HasSubstr("there is no collective \"allreduc\""));
  EXPECT_THAT(refusal("sendrecv:ring"), HasSubstr("sendrecv has no algorithms to choose from"));
}

TEST(Select, SegmentsOutOfRangeAreRefused) {
  EXPECT_THAT(refusal("allreduce:ring/0"), HasSubstr("0 segments"));
  EXPECT_THAT(refusal("allreduce:ring/65"), HasSubstr("65 segments"));
  EXPECT_THAT(refusal("allreduce:ring/many"), HasSubstr("segments of ring"));
  EXPECT_THAT(refusal("allreduce:recursive_doubling/2"), HasSubstr("2 segments"));
  EXPECT_THAT(refusal("allreduce:hierarchy/2/65"), HasSubstr("allreduce hierarchy does not run with 65 leaders"));
  EXPECT_THAT(refusal("allreduce:hierarchy/2/few"), HasSubstr("leaders of hierarchy"));
  EXPECT_THAT(refusal("allreduce:ring/2/1"), HasSubstr("1 leaders"));
  EXPECT_THAT(refusal("allreduce:hierarchy/2/1/star"), HasSubstr("hierarchy: \"star\" is no way across sites; there are direct, ring"));
  EXPECT_THAT(refusal("allreduce:hierarchy/2/1/"), HasSubstr("\"\" is no way across sites"));
  EXPECT_THAT(refusal("allreduce:ring/2/0/ring"), HasSubstr("allreduce ring does not run across sites by ring"));
  EXPECT_THAT(refusal("allgather:hierarchy/2/0/one_shot"), HasSubstr("does not run across sites by one_shot"));
  EXPECT_THAT(refusal("", "alltoall host hierarchy across=ring"), HasSubstr("alltoall hierarchy does not run across sites by ring"));
  EXPECT_THAT(refusal("", "allreduce host ring leaders=1"), HasSubstr("1 leaders"));
  EXPECT_THAT(refusal("", "allreduce host ring segments=65"), HasSubstr("65 segments"));
}

TEST(Select, ForcedAlgorithmMustServeTheRanks) {
  EXPECT_THAT(chosen(selector("allreduce:direct"), {Collective::allreduce, Reach::host, 65, 8}), HasSubstr("does not serve 65 ranks"));
}

TEST(Select, UsersRulesGoBeforeTheBuiltInOnes) {
  const Selector with_rules = selector("", "allreduce host ranks=4-8 bytes=100-200 ring segments=2\n");
  EXPECT_EQ(*choose(with_rules, {Collective::allreduce, Reach::host, 4, 100}), (Choice{find(Collective::allreduce, "ring"), 2}));
  EXPECT_EQ(*choose(with_rules, {Collective::allreduce, Reach::host, 8, 200}), (Choice{find(Collective::allreduce, "ring"), 2}));
  for (const Call& other : {Call{Collective::allreduce, Reach::host, 3, 100}, Call{Collective::allreduce, Reach::host, 9, 100},
                            Call{Collective::allreduce, Reach::host, 4, 99}, Call{Collective::allreduce, Reach::host, 4, 201},
                            Call{Collective::allreduce, Reach::process, 4, 100}, Call{Collective::allgather, Reach::host, 4, 100}}) {
    EXPECT_EQ(*choose(with_rules, other), *choose(selector(""), other));
  }
}

// --- sites ----------------------------------------------------------------------------------------------------------------------------

constexpr int32_t kTwoSites[] = {0, 0, 0, 0, 1, 1, 1, 1}, kMixed[] = {5, 0, 5, 0, 5, 0, 7, 0}, kOneSite[] = {3, 3, 3, 3, 3, 3, 3, 3},
                  kApart[] = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr Collective kWithHierarchy[] = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather, Collective::broadcast,
                                         Collective::reduce};

std::string chosen_at(const Selector& selector, std::span<const int32_t> sites, Collective collective, uint64_t bytes) {
  const auto choice = selector.narrow(Reach::network, static_cast<int32_t>(sites.size()), sites).choose(collective, bytes);
  return choice.ok() ? std::string(choice->algorithm->name) : choice.status().text();
}

TEST(Select, LargeCallsGoByHierarchyWhereSomeRanksAreClose) {
  constexpr uint64_t kLarge = 16 << 20;
  const Selector usual = selector("");
  for (const Collective collective : kWithHierarchy) {
    EXPECT_EQ(chosen_at(usual, kTwoSites, collective, kLarge), "hierarchy");
    EXPECT_EQ(chosen_at(usual, kMixed, collective, kLarge), "hierarchy");
    const std::string flat = chosen(usual, {collective, Reach::network, 8, kLarge});
    EXPECT_NE(flat, "hierarchy");
    EXPECT_EQ(chosen_at(usual, kOneSite, collective, kLarge), flat);
    EXPECT_EQ(chosen_at(usual, kApart, collective, kLarge), flat) << "nobody is close to anybody";
    if (collective == Collective::allreduce) continue;
    EXPECT_EQ(chosen_at(usual, kTwoSites, collective, 64), chosen(usual, {collective, Reach::network, 8, 64})) << "two steps are too many";
  }
  EXPECT_EQ(chosen_at(usual, kTwoSites, Collective::alltoall, 64), "hierarchy");
  EXPECT_EQ(chosen_at(usual, kTwoSites, Collective::alltoall, kLarge), "direct") << "as many bytes cross in any case";
  std::vector<int32_t> many(80, 0);
  many[0] = 1;
  EXPECT_NE(chosen_at(usual, many, Collective::allreduce, kLarge), "hierarchy") << "stars of 79 are too many messages";
}

TEST(Select, WordsAndRulesOfTheUserGoBeforeHierarchies) {
  EXPECT_EQ(chosen_at(selector("allreduce:ring"), kTwoSites, Collective::allreduce, 16 << 20), "ring");
  EXPECT_EQ(chosen_at(selector("allreduce:ring"), kTwoSites, Collective::allgather, 16 << 20), "hierarchy");
  EXPECT_EQ(chosen_at(selector("", "allreduce network ring\n"), kTwoSites, Collective::allreduce, 16 << 20), "ring");
  EXPECT_EQ(chosen_at(selector("hierarchy"), kApart, Collective::allreduce, 8), "hierarchy");
}

TEST(Select, HierarchiesOfEverySizeHaveOnePlanForARange) {
  const Choices choices = selector("").narrow(Reach::network, 8, kTwoSites);
  for (const Collective collective : kWithHierarchy) {
    uint32_t before = 0;
    for (uint64_t bytes = 1; bytes < uint64_t{1} << 42; bytes = bytes * 3 / 2 + 1) {
      const auto choice = choices.choose(collective, bytes);
      ASSERT_TRUE(choice.ok()) << choice.status().text();
      if (choice->algorithm->name != "hierarchy") continue;
      EXPECT_TRUE(allows_segments(*choice->algorithm, choice->segments));
      EXPECT_GE(choice->segments, before);
      EXPECT_EQ(choice->segments & (choice->segments - 1), 0U);
      before = choice->segments;
    }
    EXPECT_GT(before, 1U);
  }
}

TEST(Select, RulesWithUnknownAlgorithmsAreRefused) {
  EXPECT_THAT(refusal("", "allreduce host rung"), HasSubstr("allreduce has no algorithm \"rung\""));
}

TEST(Select, WhatNcclAlgoIsTranslatedToExists) {
  for (const char* nccl : {"ring", "tree", "ring,tree;allreduce:tree;broadcast:ring"}) {
    const SettingSource source = {.name = "test", .variables = {{"NCCL_ALGO", nccl}}};
    const auto settings = parse_settings(std::span(&source, 1));
    ASSERT_TRUE(settings.ok()) << settings.status().text();
    EXPECT_NE(settings->algorithm, "");
    EXPECT_TRUE(Selector::make(settings->algorithm).ok()) << settings->algorithm;
  }
}

TEST(Registry, NamesAreUniqueWithinACollective) {
  for (const plan::Algorithm* algorithm : registry()) EXPECT_EQ(find(algorithm->collective, algorithm->name), algorithm);
  EXPECT_EQ(find(Collective::allreduce, "binomial"), nullptr);
  EXPECT_EQ(names_of(Collective::reduce_scatter, 100), "halving, ring, hierarchy");
}

}  // namespace
}  // namespace isthmus::collectives
