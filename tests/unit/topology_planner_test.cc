// SPDX-License-Identifier: Apache-2.0
// The planner: layouts, profiles, the search, plan files, explanations and NCCL's tuner tables.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/registry.h"
#include "topology/planner/codec_worth.h"
#include "topology/planner/explain.h"
#include "topology/planner/tuner_csv.h"

namespace isthmus::topology {
namespace {

using collectives::Choice;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kUplink = 24'000'000;

/// The assumptions, with an uplink of 24 MB/s at each of two buildings.
Profile two_speeds() {
  Profile profile = prior_profile();
  for (const char* building : {"b0", "b1"}) {
    LinkFacts uplink{.within = std::nullopt, .from = building, .to = {}, .gaps = {}};
    uplink.cut_bytes_per_s = kUplink;
    profile.links.push_back(uplink);
  }
  return profile;
}

Scene scene_of(std::string_view layout, Profile profile) { return Scene::make(*parse_layout(layout), std::move(profile)).value(); }

PlanFile plan_of(std::string_view layout, std::vector<Pin> pins = {}) {
  SearchOptions options;
  options.pins = std::move(pins);
  return make_plan_file(scene_of(layout, two_speeds()), options).value();
}

const plan::Algorithm* allreduce(std::string_view name) { return collectives::find(Collective::allreduce, name); }

std::string error_of_layout(std::string_view text) { return parse_layout(text).status().text(); }
std::string error_of_profile(std::string_view text) { return parse_profile(text).status().text(); }

// --- layouts -----------------------------------------------------------------------------------------------------------------------

TEST(Layout, NumbersSayBuildingsHostsAndRanks) {
  const auto layout = parse_layout("2x2x3");
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->ranks(), 12);
  EXPECT_THAT(layout->hosts(), ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3));
  EXPECT_THAT(layout->sites(), ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(layout->common(0, 2), Level::host);
  EXPECT_EQ(layout->common(0, 3), Level::building);
  EXPECT_EQ(layout->common(0, 6), std::nullopt);
  EXPECT_EQ(layout->text(), "12 ranks, 4 hosts, 2 buildings");
}

TEST(Layout, BuildingsMayHaveAnySizesAndLieAnyhow) {
  EXPECT_THAT(parse_layout("3+1")->sites(), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(parse_layout("2+1x2")->hosts(), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(parse_layout("3+1/cyclic")->sites(), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(parse_layout("2x2/cyclic")->sites(), ElementsAre(0, 1, 0, 1));
  EXPECT_NE(parse_layout("2x2")->hash(), parse_layout("2x2/cyclic")->hash());
  EXPECT_NE(parse_layout("2x2")->hash(), parse_layout("1x4")->hash());
}

TEST(Layout, WhatIsNoLayoutIsRefused) {
  for (const char* text : {"", "x", "2x", "2xx4", "0x2", "2x0", "2x2x2x2", "2+x3", "3+5x2x2", "-1x2", "2x2/cyclical", "a"}) {
    EXPECT_THAT(error_of_layout(text), HasSubstr("is accepted")) << text;
  }
  EXPECT_THAT(error_of_layout("64x65"), HasSubstr("more than 4096"));
  EXPECT_THAT(error_of_layout("{\"schema\": \"isthmus.topo/1\", \"ranks\": []}"), HasSubstr("1 to 4096"));
  EXPECT_THAT(error_of_layout("{\"schema\": \"isthmus.topo/2\"}"), HasSubstr("isthmus.topo/1"));
  EXPECT_THAT(error_of_layout("{"), HasSubstr("parse error"));
}

TEST(Layout, AJobsTopologyIsRead) {
  const auto layout = parse_layout(R"({"schema": "isthmus.topo/1", "ranks": [
    {"rank": 0, "host": "a", "levels": {"region": {"name": "eu"}, "building": {"name": "fra"}}},
    {"rank": 1, "host": "b", "levels": {"region": {"name": "eu"}, "building": {"name": "ams"}}},
    {"rank": 2, "host": "a", "levels": {"region": {"name": "eu"}, "building": {"name": "fra"}}}]})");
  ASSERT_TRUE(layout.ok()) << layout.status().text();
  EXPECT_THAT(layout->hosts(), ElementsAre(0, 1, 0));
  EXPECT_EQ(layout->common(0, 1), Level::region);
  EXPECT_THAT(layout->names[static_cast<size_t>(Level::building)], ElementsAre("eu/fra", "eu/ams"));
}

// --- profiles ------------------------------------------------------------------------------------------------------------------------

TEST(ProfileText, IsReadAsItWasWritten) {
  Profile profile = two_speeds();
  profile.epoch = 7;
  profile.links[0].gaps = {{.bytes = 1024, .gap_ns = 500}, {.bytes = 4096, .gap_ns = 1200}};
  profile.links[0].confidence = Confidence::measured;
  profile.links[0].samples = 64;
  profile.links[0].measured_at_s = 1'790'000'000;
  profile.machine.codecs = {{.name = "thc", .encode_bytes_per_s = 1000, .accumulate_bytes_per_s = 2000, .decode_bytes_per_s = 3000}};
  const auto read = parse_profile(to_json(profile));
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(*read, profile);
  EXPECT_EQ(to_json(*read), to_json(profile));
  profile.machine.codecs[0].name = "thc:b=4";
  EXPECT_EQ(parse_profile(to_json(profile))->machine.codecs[0].name, "thc") << "as the library names it";
  profile.machine.codecs[0].name = "zip";
  EXPECT_THAT(parse_profile(to_json(profile)).status().text(), HasSubstr("'zip' is no codec"));
}

TEST(ProfileText, ErrorsSayWhichFieldAndWhatIsAccepted) {
  const auto with_link = [](std::string_view link) {
    return error_of_profile(fmt::format(R"({{"schema": "isthmus.profile/1", "links": [{}]}})", link));
  };
  EXPECT_THAT(with_link(R"({"within": "town"})"), AllOf(HasSubstr("links[0]"), HasSubstr("'town' is none of host, zone")));
  EXPECT_THAT(with_link(R"({"within": "host", "latency_us": 3})"), AllOf(HasSubstr("'latency_us' is not known"), HasSubstr("latency_ns")));
  EXPECT_THAT(with_link(R"({"within": "host", "latency_ns": -1})"), HasSubstr("latency_ns: a whole number"));
  EXPECT_THAT(with_link(R"({"within": "host", "samples": 5000000000})"), HasSubstr("from 0 to 4294967295"));
  EXPECT_THAT(with_link(R"({"within": "host", "gaps": [[2, 1], [2, 3]]})"), HasSubstr("bytes must ascend"));
  EXPECT_THAT(with_link(R"({"within": "host", "confidence": "sure"})"), HasSubstr("'sure' is none of prior, given, measured"));
  EXPECT_THAT(with_link(R"({"within": "host", "latency_ns": 3600000000001})"), HasSubstr("from 0 to 3600000000000"));
  EXPECT_THAT(with_link(R"({"within": "host", "cut_bytes_per_s": 999})"), HasSubstr("0 (no limit) or at least 1000"));
  EXPECT_THAT(with_link("3"), HasSubstr("must be an object"));
  EXPECT_THAT(error_of_profile(R"({"schema": "isthmus.profile/1", "links": []})"), HasSubstr("at least one"));
  EXPECT_THAT(error_of_profile(R"({"links": []})"), HasSubstr("schema must be"));
  EXPECT_THAT(error_of_profile("nothing"), HasSubstr("no JSON"));
}

TEST(ProfileText, TheNearestFactsCount) {
  Profile profile = prior_profile();
  LinkFacts pair{.within = std::nullopt, .from = "b0", .to = "b1", .latency_ns = 77, .gaps = {}};
  profile.links.push_back(pair);
  const Layout layout = *parse_layout("3x2");
  EXPECT_EQ(profile.find(layout, 0, 2)->latency_ns, 77);
  EXPECT_EQ(profile.find(layout, 2, 0)->within, std::nullopt);  // only the other direction is told apart
  EXPECT_NE(profile.find(layout, 2, 0)->latency_ns, 77);
  EXPECT_EQ(profile.find(layout, 0, 1)->within, Level::building);
  std::erase_if(profile.links, [](const LinkFacts& link) { return link.within == Level::building; });
  EXPECT_EQ(profile.find(layout, 0, 1)->within, Level::region) << "a wider kind goes before a narrower one";
}

// --- the search ------------------------------------------------------------------------------------------------------------------------

TEST(Search, CoversEverySizeOfEveryCollective) {
  const Scene scene = scene_of("2x4", two_speeds());
  const auto intervals = search(scene, {});
  ASSERT_TRUE(intervals.ok()) << intervals.status().text();
  std::map<Collective, uint64_t> next;
  for (const Interval& one : *intervals) {
    EXPECT_EQ(one.min_bytes, next[one.collective]);
    EXPECT_EQ(one.choice.algorithm->collective, one.collective);
    EXPECT_GE(one.predicted_ns, one.bound_ns);
    next[one.collective] = one.max_bytes + 1;
  }
  EXPECT_THAT(next, SizeIs(6));
  for (const auto& [collective, end] : next) EXPECT_EQ(end, 0U) << name_of(collective);  // after the largest number
}

TEST(Search, CrossesSlowLinksOnce) {
  const Scene scene = scene_of("2x4/cyclic", two_speeds());
  const auto intervals = search(scene, {.collectives = {Collective::allreduce}, .pins = {}});
  ASSERT_TRUE(intervals.ok());
  const Interval& last = intervals->back();
  EXPECT_EQ(last.choice.algorithm, allreduce("hierarchy"));
  EXPECT_LT(static_cast<double>(last.predicted_ns), 1.1 * static_cast<double>(last.bound_ns));
}

TEST(Search, ALeftChoiceWasSlowerByMoreThanTheHysteresis) {
  const Scene scene = scene_of("2x2", two_speeds());
  SearchOptions options{.collectives = {Collective::allreduce}, .pins = {}};
  options.hysteresis = 1000;
  EXPECT_THAT(*search(scene, options), SizeIs(1));
  options.hysteresis = 0;
  EXPECT_GT(search(scene, options)->size(), 1U);
}

TEST(Search, IsTheBestOfAllThatCanBeWalked) {
  const Scene scene = scene_of("3+2", two_speeds());
  Pricer pricer(scene, UINT64_MAX);
  for (const uint64_t bytes : {uint64_t{256}, uint64_t{64} << 10, uint64_t{8} << 20}) {
    TimeNs least = kNever;
    for (const Choice& choice : pricer.candidates(Collective::allreduce, bytes)) {
      least = std::min(least, pricer.price(choice, bytes)->time_ns);
    }
    EXPECT_EQ(pricer.best(Collective::allreduce, bytes, {}, 0)->front().time_ns, least) << bytes;
  }
}

/// Giving up slow candidates saves time and changes neither the choice nor its price: with and without patience the same one is preferred,
/// whatever was priced before.
TEST(Search, PatienceDecidesNothing) {
  for (const char* layout : {"2x2", "2+3", "2x4", "3+5", "1x8"}) {
    const Scene scene = scene_of(layout, two_speeds());
    Pricer patient(scene, UINT64_MAX), hasty(scene, UINT64_MAX);
    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather}) {
      Choice before;
      for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 64) {
        const auto all = patient.best(collective, bytes, before, 0.05).value(),
                   quick = hasty.best(collective, bytes, before, 0.05, 1.1).value();
        const Price &wanted = preferred(all), &found = preferred(quick);
        EXPECT_EQ(found.choice, wanted.choice) << layout << " " << bytes;
        EXPECT_EQ(found.time_ns, wanted.time_ns) << layout << " " << bytes;
        EXPECT_LE(static_cast<double>(quick.back().time_ns), 1.1 * static_cast<double>(quick.front().time_ns)) << layout << " " << bytes;
        before = wanted.choice;
      }
    }
    EXPECT_EQ(patient.events(), hasty.events());
  }
}

TEST(Search, WhatWasGivenUpIsPricedInFullWhenAskedFor) {
  const Scene scene = scene_of("2x2", two_speeds());
  Pricer pricer(scene, UINT64_MAX), fresh(scene, UINT64_MAX);
  const Choice ring{allreduce("ring"), 1, 0};
  const Price cut = pricer.price(ring, 1 << 20, 1).value();
  EXPECT_TRUE(cut.given_up);
  const uint64_t events = pricer.events();
  const Price whole = pricer.price(ring, 1 << 20).value();
  EXPECT_FALSE(whole.given_up);
  EXPECT_EQ(whole.time_ns, fresh.price(ring, 1 << 20)->time_ns);
  EXPECT_EQ(pricer.events(), events);
}

/// Sums that come from other sites wait for room at who adds them: many segments take long however small they are.
TEST(Search, BoundsOfManySegmentsKnowThatInboxesAreSmall) {
  for (const char* layout : {"2x2", "2x4", "3+5", "2x4/cyclic", "3x2", "2x2x2"}) {
    const Scene scene = scene_of(layout, two_speeds());
    Pricer pricer(scene, UINT64_MAX);
    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter}) {
      for (const uint64_t bytes : {uint64_t{2048}, uint64_t{5000}, uint64_t{32} << 10, uint64_t{1} << 20}) {
        for (const uint32_t segments : {1U, 4U, 16U, 64U}) {
          const auto price = pricer.price({collectives::find(collective, "hierarchy"), segments, 0}, bytes).value();
          EXPECT_LE(price.bound_ns, price.time_ns) << layout << " " << name_of(collective) << " " << bytes << " in " << segments;
        }
        EXPECT_GE(pricer.price({collectives::find(collective, "hierarchy"), 64, 0}, 1 << 20)->bound_ns, 8 * 5'000'000);
      }
    }
  }
}

TEST(Search, TheSameInputsGiveTheSameText) { EXPECT_EQ(to_json(plan_of("2x4")), to_json(plan_of("2x4"))); }

TEST(Search, LargeJobsArePlannedByClosedForms) {
  const auto intervals = search(scene_of("4x256", two_speeds()), {.collectives = {Collective::allreduce}, .pins = {}});
  ASSERT_TRUE(intervals.ok());
  EXPECT_FALSE(intervals->back().walked);
  EXPECT_EQ(intervals->back().choice.algorithm, allreduce("hierarchy"));
}

TEST(Search, PinsStandWhateverTheyCost) {
  const Pin pin{.collective = Collective::allreduce, .min_bytes = 1000, .max_bytes = 1 << 20, .choice = {allreduce("ring"), 2}};
  const auto intervals = search(scene_of("2x4", two_speeds()), {.collectives = {Collective::allreduce}, .pins = {pin}});
  ASSERT_TRUE(intervals.ok());
  uint64_t next = 0;
  bool pinned = false;
  for (const Interval& one : *intervals) {
    EXPECT_EQ(one.min_bytes, next);
    next = one.max_bytes + 1;
    if (!one.pinned) continue;
    pinned = true;
    EXPECT_EQ(one.min_bytes, 1000U);
    EXPECT_EQ(one.max_bytes, 1U << 20);
    EXPECT_EQ(one.choice, pin.choice);
    EXPECT_GT(one.predicted_ns, 0);
  }
  EXPECT_TRUE(pinned);
  EXPECT_EQ(next, 0U);
}

TEST(Search, TheFirstOfOverlappingPinsCounts) {
  const Pin first{.collective = Collective::allreduce, .min_bytes = 1000, .max_bytes = 2000, .choice = {allreduce("ring"), 2}};
  const Pin second{.collective = Collective::allreduce, .min_bytes = 1500, .max_bytes = 3000, .choice = {allreduce("direct"), 1}};
  const PlanFile plan = plan_of("2x2", {first, second});
  const auto choice_at = [](const auto& ranges, uint64_t bytes) {
    for (const auto& one : ranges) {
      if (one.collective == Collective::allreduce && bytes >= one.min_bytes && bytes <= one.max_bytes) return one.choice;
    }
    return Choice();
  };
  for (const uint64_t bytes : {1000, 1499, 1500, 2000, 2001, 3000, 3001}) {
    EXPECT_EQ(choice_at(plan.intervals, bytes), choice_at(plan.ranges(), bytes)) << bytes;
  }
  EXPECT_EQ(choice_at(plan.intervals, 1800), first.choice);
}

TEST(Search, EstimatesAreNotBelowWhatNoAlgorithmBeats) {
  const Scene scene = scene_of("2x4x8/cyclic", two_speeds());
  SearchOptions options{.collectives = {Collective::allreduce, Collective::allgather}, .pins = {}};
  options.most_events = 0;
  const auto intervals = search(scene, options);
  ASSERT_TRUE(intervals.ok());
  for (const Interval& one : *intervals) EXPECT_GE(one.predicted_ns, one.bound_ns) << one.at_bytes;
}

TEST(ProfileText, UnknownMembersAreFound) {
  Profile profile = two_speeds();
  profile.links.back().from = "nobody";
  EXPECT_THAT(unknown_members(*parse_layout("2x2"), profile), ElementsAre("nobody"));
}

TEST(Search, ManySitesAndFarSizesEnd) {
  Profile profile = two_speeds();
  const Scene scene = scene_of("512x1", profile);
  SearchOptions options;
  options.most_bytes = uint64_t{1} << 40;
  options.most_events = 1000;
  const auto intervals = search(scene, options);
  ASSERT_TRUE(intervals.ok()) << intervals.status().text();
  for (const Interval& one : *intervals) {
    EXPECT_FALSE(one.choice.algorithm->needs.by_site) << "every host is a site";
    EXPECT_GT(one.predicted_ns, 0);
  }
}

// --- plan files --------------------------------------------------------------------------------------------------------------------------

TEST(PlanFile, IsReadAsItWasWritten) {
  const Pin pin{.collective = Collective::reduce, .min_bytes = 64, .choice = {collectives::find(Collective::reduce, "chain"), 8}};
  const std::string text = to_json(plan_of("2x2", {pin}));
  std::vector<std::string> warnings;
  const auto read = parse_plan_file(text, warnings);
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(read->layout_hash, parse_layout("2x2")->hash());
}

TEST(PlanFile, PinsGoFirst) {
  PlanFile plan = plan_of("2x2");
  plan.pins = {{.collective = Collective::allreduce, .choice = {allreduce("ring"), 1}}};
  EXPECT_EQ(plan.ranges().front().choice, (Choice{allreduce("ring"), 1}));
}

TEST(PlanFile, KeepsTheWayAcross) {
  PlanFile plan = plan_of("3x2");
  const Choice wanted = {allreduce("hierarchy"), 2, 1, plan::Across::recursive_doubling};
  plan.pins = {{.collective = Collective::allreduce, .choice = wanted}};
  std::vector<std::string> warnings;
  const auto read = parse_plan_file(to_json(plan), warnings);
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(read->ranges().front().choice, wanted);
  EXPECT_EQ(text_of(wanted), "hierarchy in 2 segments with 1 leader, across by recursive_doubling");
}

TEST(PlanFile, UnknownFieldsAreWarnings) {
  std::string text = to_json(plan_of("2x2"));
  text.insert(text.find('{') + 1, R"("mood": "good",)");
  std::vector<std::string> warnings;
  EXPECT_TRUE(parse_plan_file(text, warnings).ok());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("'mood' is not known")));
}

TEST(PlanFile, ErrorsSayWhatThereIs) {
  const auto error_with = [](std::string_view from, std::string_view to) {
    std::string text = to_json(plan_of("2x2"));
    text.replace(text.find(from), from.size(), to);
    std::vector<std::string> warnings;
    return parse_plan_file(text, warnings).status().text();
  };
  EXPECT_THAT(error_with("isthmus.plan/1", "isthmus.plan/2"), HasSubstr("isthmus.plan/1"));
  EXPECT_THAT(error_with("\"hierarchy\"", "\"pyramid\""), AllOf(HasSubstr("collectives["), HasSubstr("'pyramid'; it has")));
  EXPECT_THAT(error_with("\"segments\": 1", "\"segments\": 99"), HasSubstr("does not run in 99 segments"));
  EXPECT_THAT(error_with("\"segments\": 1", "\"segments\": 1, \"leaders\": 99"), HasSubstr("does not run with 99 leaders"));
  EXPECT_THAT(error_with("\"segments\": 1", "\"segments\": 1, \"across\": \"star\""),
              HasSubstr("\"star\" is no way across sites; there are"));
  EXPECT_THAT(error_with("\"hierarchy\"", "\"direct\", \"across\": \"ring\""), HasSubstr("does not run across sites by ring"));
  EXPECT_THAT(error_with("xxh3:", "sha:"), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(error_with("xxh3:", "xxh3:-"), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(error_with("\"allreduce\"", "\"barrier\""), HasSubstr("none of allreduce"));
  EXPECT_THAT(error_with("\"min_bytes\": 0", "\"min_bytes\": 99999999999"), HasSubstr("max_bytes is below"));
}

// --- explanations ------------------------------------------------------------------------------------------------------------------------

TEST(Explain, TermsAddUp) {
  const Scene scene = scene_of("2x2", two_speeds());
  const auto explanation = explain(scene, Collective::allreduce, 4 << 20, {allreduce("hierarchy"), 4}, 0.05);
  ASSERT_TRUE(explanation.ok()) << explanation.status().text();
  const Terms& terms = explanation->terms;
  EXPECT_EQ(terms.total_ns, explanation->chosen.time_ns);
  EXPECT_EQ(terms.latency_ns + terms.bandwidth_ns + terms.overhead_ns + terms.compute_ns, terms.total_ns);
  EXPECT_GE(terms.latency_ns, 5 * kMillisecondNs);
  EXPECT_NEAR(static_cast<double>(terms.bandwidth_ns), (4 << 20) * 1e9 / kUplink, 2e7);
  EXPECT_EQ(explanation->chosen.choice.algorithm, allreduce("hierarchy"));
  EXPECT_FALSE(explanation->others.empty());
  const std::string text = to_text(*explanation, 1'790'000'000);
  EXPECT_THAT(text, AllOf(HasSubstr("hierarchy"), HasSubstr("latency"), HasSubstr("cut 24 MB/s"), HasSubstr("prior")));
}

TEST(Explain, WhatFlipsTheChoiceDoes) {
  const Scene scene = scene_of("2x2", two_speeds());
  constexpr uint64_t kBytes = 16 << 10;
  const auto explanation = explain(scene, Collective::allreduce, kBytes, {}, 0.05);
  ASSERT_TRUE(explanation.ok());
  ASSERT_FALSE(explanation->flips.empty());
  for (const Flip& flip : explanation->flips) {
    if (flip.latency_ns == 0 || flip.input != "latency of job") continue;
    Profile profile = two_speeds();
    for (LinkFacts& link : profile.links) {
      if (!link.within && link.from.empty()) link.latency_ns = flip.latency_ns;
    }
    const Scene then = scene_of("2x2", profile);
    Pricer pricer(then, UINT64_MAX);
    EXPECT_EQ(pricer.best(Collective::allreduce, kBytes, {}, 0)->front().choice.algorithm, flip.choice.algorithm);
  }
}

TEST(CodecWorth, PaysBelowItsBreakEvenOnly) {
  codec::Codecs codecs;
  const codec::Named& thc = **codecs.get("thc:b=4", 2);
  constexpr uint64_t kBytes = 16 << 20;
  const Scene slow = scene_of("2x1", two_speeds());
  const auto worth = worth_of(slow, Collective::allreduce, kBytes, thc);
  ASSERT_TRUE(worth.ok()) << worth.status().text();
  EXPECT_EQ(worth->rate_bytes_per_s, kUplink);
  // 64 bits an element exact, 12 through the codec, and its arithmetic
  EXPECT_NEAR(static_cast<double>(worth->exact.time_ns) / static_cast<double>(worth->coded.time_ns), 5.0, 0.5);
  ASSERT_GT(worth->break_even, 1.5);
  ASSERT_LT(worth->break_even, 1000);
  const auto times_at = [&](double factor) {
    Profile profile = two_speeds();
    for (LinkFacts& link : profile.links) {
      if (link.within) continue;
      for (uint64_t* rate : {&link.stream_bytes_per_s, &link.port_bytes_per_s, &link.cut_bytes_per_s}) {
        *rate = static_cast<uint64_t>(static_cast<double>(*rate) * factor);
      }
    }
    const auto then = worth_of(scene_of("2x1", profile), Collective::allreduce, kBytes, thc);
    return static_cast<double>(then->exact.time_ns) / static_cast<double>(then->coded.time_ns);
  };
  EXPECT_GT(times_at(worth->break_even / 1.25), 1);
  EXPECT_LT(times_at(worth->break_even * 1.25), 1);
}

TEST(CodecWorth, SaysWhereNoAlgorithmCanUseIt) {
  codec::Codecs codecs;
  const auto worth = worth_of(scene_of("2x1", two_speeds()), Collective::allgather, 1 << 20, **codecs.get("thc:b=4", 2));
  EXPECT_THAT(worth.status().text(), HasSubstr("allgather has no algorithm for codec thc"));
}

// --- NCCL's tuner tables -----------------------------------------------------------------------------------------------------------------

TEST(TunerCsv, LinesThatFitBecomePins) {
  const Layout layout = *parse_layout("2x2");
  std::vector<std::string> warnings;
  const auto pins = parse_tuner_csv(
      "# comment\n"
      "allreduce,0,1024,tree,ll,-1,-1,-1\n"
      "allreduce,1025,4294967295,ring,simple,4,4,4,-1,-1\n"
      "allreduce,0,10,ring,simple,4,8,4\n"
      "reducescatter,0,10,nvls,simple,-1,-1,-1\n",
      layout, warnings);
  ASSERT_TRUE(pins.ok()) << pins.status().text();
  ASSERT_THAT(*pins, SizeIs(2));
  EXPECT_EQ((*pins)[0].choice.algorithm, allreduce("hierarchy"));
  EXPECT_EQ((*pins)[1].choice.algorithm, allreduce("ring"));
  EXPECT_EQ((*pins)[1].max_bytes, 4294967295U);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("line 5"), HasSubstr("nvls"))));
}

TEST(TunerCsv, ErrorsSayTheLine) {
  const auto error = [](std::string_view text) {
    std::vector<std::string> warnings;
    return parse_tuner_csv(text, *parse_layout("2x2"), warnings).status().text();
  };
  EXPECT_THAT(error("\nallreduce,1\n"), AllOf(HasSubstr("line 2"), HasSubstr("at least 8")));
  EXPECT_THAT(error("sum,0,1,ring,ll,-1,-1,-1"), HasSubstr("'sum' is none of"));
  EXPECT_THAT(error("allreduce,x,1,ring,ll,-1,-1,-1"), HasSubstr("line 1"));
  EXPECT_THAT(error("allreduce,2,1,ring,ll,-1,-1,-1"), HasSubstr("fewer"));
}

TEST(TunerCsv, APlanComesBackAsPins) {
  const PlanFile plan = plan_of("2x2");
  std::vector<std::string> warnings;
  const auto pins = parse_tuner_csv(to_tuner_csv(plan, 4), *parse_layout("2x2"), warnings);
  ASSERT_TRUE(pins.ok()) << pins.status().text();
  const auto known = [](const Interval& one) { return one.collective != Collective::alltoall; };  // NCCL has no algorithms for it
  EXPECT_EQ(static_cast<std::ptrdiff_t>(pins->size()), std::count_if(plan.intervals.begin(), plan.intervals.end(), known));
}

}  // namespace
}  // namespace isthmus::topology
