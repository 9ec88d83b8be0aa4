// SPDX-License-Identifier: Apache-2.0
// Parts of `isthmus federated run` that decide: messages, the coordinator's table, a member's work. Processes are in tests/proc.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "cli/federated/run/grouping.h"
#include "cli/federated/run/messages.h"
#include "cli/federated/run/work.h"

namespace isthmus::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunRules small_rules(Scenario scenario = Scenario::label) {
  RunRules rules{.members = 4, .clients_each = 6};
  rules.episode.scenario = scenario;
  rules.episode.clients = 24;
  rules.episode.rounds = 10;
  rules.episode.drift_every = rules.episode.big_drift = 6;
  return rules;
}

RunTerms terms_of(const RunRules& rules) { return terms_of(rules, {1, 65535}, {}); }

/// What was written is read again, and of no message can a part be missing.
template <typename T, typename Decode>
T passed_on(const T& message, const Decode& decode) {
  const bootstrap::SharedBytes body = encode(message);
  const std::span<const std::byte> bytes(*body);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode(bytes.first(size)).ok()) << size;
  auto read = decode(bytes);
  EXPECT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(*encode(*read), *body);
  return *read;
}

TEST(RunMessages, AreReadAsTheyWereWritten) {
  EXPECT_EQ(passed_on(RunJoin{.images = 7}, decode_run_join).images, 7U);
  const RunTerms terms = passed_on(terms_of(small_rules(Scenario::concept_swap)), decode_run_terms);
  EXPECT_EQ(terms.episode.scenario, Scenario::concept_swap);
  EXPECT_THAT(terms.masked_ports, ElementsAre(1, 65535));
  EXPECT_EQ(terms.plain.largest_weight, 240);
  const RunCall call{.round = 3, .looks = true, .centres = {1, 2}, .clusters = {0, 7}, .probe = {0.5F}};
  EXPECT_THAT(passed_on(call, decode_run_call).clusters, ElementsAre(0, 7));
  const RunReports reports{.round = 3,
                           .header = {.kind = federated::RepKind::gradient, .dims = 2, .probe_hash = 5, .seed = 6},
                           .reports = {{.client = 9, .samples = 40, .values = {0.6F, 0.8F}}},
                           .held = {{.cluster = 1, .model = 12}}};
  EXPECT_EQ(passed_on(reports, decode_run_reports).header, reports.header);
  const RunPlan plan{
      .round = 3, .epoch = 2, .clusters = {1, 1}, .parts = {{.cluster = 1, .sum = SumKind::masked, .model = 12, .values = {1, 2}}}};
  EXPECT_EQ(passed_on(plan, decode_run_plan).parts[0].sum, SumKind::masked);
  const RunResult result{.round = 3, .parts = {{.cluster = 1, .counted = true, .model = 13}}, .accuracy = 0.5, .sent_bytes = 8};
  EXPECT_TRUE(passed_on(result, decode_run_result).parts[0].counted);
  EXPECT_EQ(passed_on(RunEnd{.why = "so"}, decode_run_end).why, "so");
}

TEST(RunMessages, ThatMakeNoSenseAreRefused) {
  RunTerms terms = terms_of(small_rules());
  terms.clients_each = 5;
  EXPECT_FALSE(decode_run_terms(*encode(terms)).ok());
  RunResult result{.round = 1, .parts = {}, .accuracy = 1.5};
  EXPECT_FALSE(decode_run_result(*encode(result)).ok());
}

/// A run without a network: sums are exact means of what members would contribute.
struct Drill {
  explicit Drill(const RunRules& chosen) : rules(chosen), digits(make_digits(3)), grouping(rules) {
    for (uint32_t member = 0; member < rules.members; ++member) works.emplace_back(terms_of(rules), member, digits);
  }

  federated::DriftReport round(uint32_t number, const std::set<uint32_t>& absent = {}) {
    grouping.open(number);
    for (uint32_t member = 0; member < rules.members; ++member) {
      if (absent.contains(member)) continue;
      const auto centres = grouping.centres().values;
      const auto reports = works[member].look({.round = number,
                                               .looks = grouping.looks(number),
                                               .centres = {centres.begin(), centres.end()},
                                               .clusters = grouping.clusters_of(member),
                                               .probe = grouping.probe()});
      EXPECT_TRUE(reports.ok()) << reports.status().text();
      const Status taken = grouping.take(member, *reports);
      EXPECT_TRUE(taken.ok()) << taken.text();
    }
    const auto drift = grouping.update(number);
    EXPECT_TRUE(drift.ok()) << drift.status().text();
    train(number, absent);
    return *drift;
  }

  void train(uint32_t number, const std::set<uint32_t>& absent) {
    std::map<uint32_t, std::vector<std::pair<uint32_t, MemberWork::Update>>> sums;
    for (uint32_t member = 0; member < rules.members; ++member) {
      if (absent.contains(member)) continue;
      RunPlan plan{.round = number, .epoch = grouping.epoch(), .clusters = grouping.clusters_of(member), .parts = {}};
      for (uint32_t k = 0; k < grouping.k(); ++k) {
        if (!grouping.members_of(k)[member]) continue;
        plan.parts.push_back({.cluster = k, .sum = SumKind::plain, .model = hash_of(grouping.model(k)), .values = grouping.model(k)});
      }
      const Status followed = works[member].follow(plan);
      EXPECT_TRUE(followed.ok()) << followed.text();
      for (MemberWork::Update& update : works[member].train(plan)) sums[update.cluster].emplace_back(member, std::move(update));
    }
    for (const auto& [cluster, updates] : sums) {
      std::vector<float> mean(parameters_of(rules.model));
      double weights = 0;
      for (const auto& [member, update] : updates) weights += update.weight;
      for (const auto& [member, update] : updates)
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<float>(update.weight / weights) * update.vector[i];
      grouping.add(cluster, mean);
      for (const auto& [member, update] : updates) {
        works[member].add(update, mean);
        EXPECT_EQ(works[member].model_hash(cluster), hash_of(grouping.model(cluster)));
      }
    }
  }

  RunRules rules;
  Digits digits;
  Grouping grouping;
  std::vector<MemberWork> works;
};

TEST(Run, ClustersAnewOnceAfterTheBigDrift) {
  Drill drill(small_rules());
  std::vector<uint32_t> anew;
  for (uint32_t round = 1; round <= 10; ++round) {
    const federated::DriftReport drift = drill.round(round);
    if (drift.reclustered) anew.push_back(round);
    EXPECT_EQ(drift.k, 4U);
    EXPECT_EQ(drift.reported, round == 1 || round == 6 ? 24U : 0U) << round;
  }
  EXPECT_THAT(anew, ElementsAre(6));
  for (const MemberWork& work : drill.works) EXPECT_GT(work.accuracy(), 0.9);
}

TEST(Run, WhoWasAwayReportsWhatHasDriftedMeanwhile) {
  Drill drill(small_rules());
  for (uint32_t round = 1; round <= 5; ++round) drill.round(round);
  EXPECT_EQ(drill.round(6, {2}).reported, 18U);
  EXPECT_EQ(drill.round(7, {2}).reported, 0U);
  EXPECT_EQ(drill.round(8).reported, 6U);
}

TEST(Run, ReportsAreRepeatedUntilAPlanConfirmsThem) {
  const RunRules rules = small_rules();
  const Digits digits = make_digits(3);
  MemberWork work(terms_of(rules), 1, digits);
  const auto look = [&](uint32_t round) {
    return work.look({.round = round, .looks = true, .centres = {}, .clusters = std::vector<uint32_t>(6, 0), .probe = {}})->reports.size();
  };
  EXPECT_EQ(look(1), 6U);
  EXPECT_EQ(look(2), 6U) << "nobody has said that they arrived";
  const Model model = first_model(rules.model, rules.seed);
  const RunPlan plan{
      .round = 2, .epoch = 1, .clusters = std::vector<uint32_t>(6, 0), .parts = {{.cluster = 0, .model = hash_of(model), .values = model}}};
  ASSERT_TRUE(work.follow(plan).ok());
  EXPECT_EQ(look(3), 0U);
  EXPECT_EQ(work.follow(plan).code(), Code::remote_error) << "it is for another round";
}

TEST(Run, MembersWithoutASumTrainAlone) {
  const RunRules rules = small_rules();
  const Digits digits = make_digits(3);
  MemberWork work(terms_of(rules), 0, digits);
  const Model model = first_model(rules.model, rules.seed);
  const double untrained = work.accuracy();
  RunPlan plan{
      .round = 1, .epoch = 1, .clusters = std::vector<uint32_t>(6, 0), .parts = {{.cluster = 0, .model = hash_of(model), .values = model}}};
  for (plan.round = 1; plan.round <= 3; ++plan.round) {
    ASSERT_TRUE(work.look({.round = plan.round, .looks = true, .centres = {}, .clusters = plan.clusters, .probe = {}}).ok());
    ASSERT_TRUE(work.follow(plan).ok());
    plan.parts[0].values.clear();
    work.stay_alone(work.train(plan).front());
  }
  EXPECT_GT(work.accuracy(), untrained + 0.2);
  EXPECT_EQ(work.model_hash(0), hash_of(model)) << "the common model waits";
}

TEST(Run, MembersReportForTheirOwnClients) {
  Grouping grouping(small_rules());
  grouping.open(1);
  const RunReports reports{.round = 1, .header = {.dims = kDigits}, .reports = {{.client = 6, .samples = 1, .values = {}}}, .held = {}};
  EXPECT_THAT(grouping.take(0, reports).text(), HasSubstr("client 6, which is not its own"));
  EXPECT_FALSE(grouping.take(1, reports).ok()) << "it is no histogram";
}

}  // namespace
}  // namespace isthmus::cli
