// SPDX-License-Identifier: Apache-2.0
// The simulation of cohorts on made-up images: representations see the drift that they are for and no other, methods keep their promises on
// short episodes, equal seeds give equal results, tables of numbers are read and refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/federated/number_table.h"
#include "cli/federated/reporter.h"
#include "cli/federated/study.h"
#include "cli/federated/timeline.h"

namespace isthmus::cli {
namespace {

using testing::HasSubstr;

EpisodeRules short_rules(Scenario scenario) {
  return {.scenario = scenario, .clients = 40, .samples = 40, .rounds = 40, .drift_every = 10, .big_drift = 20, .test_samples = 100};
}

/// How well clusters of the clients' first representations agree with the groups.
double agreement_of(const Episode& episode, Scenario seen_as, uint32_t k) {
  EpisodeRules rules = episode.rules;
  rules.scenario = seen_as;
  Model probe = make_model(1, 0.01);
  CounterRng random(1, 0);
  for (int round = 0; round < 3; ++round) {
    for (const Change& change : episode.changes[0]) train(probe, change.data, {.lr = 0.02, .epochs = 1}, random);
  }
  Reporter reporter(rules, probe, 1);
  std::vector<float> values;
  std::vector<uint32_t> groups;
  for (const Change& change : episode.changes[0]) {
    EXPECT_TRUE(reporter.looks(change.client, change.data));
    values.insert(values.end(), reporter.values(change.client).begin(), reporter.values(change.client).end());
    groups.push_back(change.task);
  }
  const federated::Points points{.values = values, .dims = reporter.header().dims};
  const auto found = federated::cluster(points, {.metric = federated::metric_of(reporter.header().kind), .k_fixed = k});
  return federated::adjusted_rand_index(found->clustering.assignment, groups);
}

TEST(Representations, SeeTurnedImages) {  // T6
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Episode episode = make_episode(short_rules(Scenario::rotation), make_digits(seed), seed);
    EXPECT_EQ(agreement_of(episode, Scenario::rotation, 4), 1) << seed;
    EXPECT_NEAR(agreement_of(episode, Scenario::label, 4), 0, 0.15) << seed;
  }
}

TEST(Representations, SeeOtherConcepts) {  // T7
  for (uint64_t seed = 0; seed < 3; ++seed) {
    EpisodeRules rules = short_rules(Scenario::concept_swap);
    rules.samples = 100;  // made-up images are harder to tell apart than digits
    const Episode episode = make_episode(rules, make_digits(seed), seed);
    EXPECT_GE(agreement_of(episode, Scenario::concept_swap, 4), 0.9) << seed;
    EXPECT_NEAR(agreement_of(episode, Scenario::label, 4), 0, 0.15) << seed;
  }
}

TEST(Episode, IsTheSameForEqualSeedsAndDriftsAsItSays) {
  const EpisodeRules rules = short_rules(Scenario::label);
  const Digits digits = make_digits(1);
  const Episode a = make_episode(rules, digits, 3), b = make_episode(rules, digits, 3), c = make_episode(rules, digits, 4);
  EXPECT_EQ(a.changes[0][7].data.images, b.changes[0][7].data.images);
  EXPECT_NE(a.changes[0][7].data.images, c.changes[0][7].data.images);
  for (uint32_t round = 1; round <= rules.rounds; ++round) {
    const size_t expected = round == 20 ? 40 : round == 10 || round == 30 ? 6 : 0;
    EXPECT_EQ(a.changes[round].size(), expected) << round;
  }
  for (const Change& change : a.changes[20]) EXPECT_GE(change.task, 4U);
}

TEST(Episode, MayHaveNoBigDrift) {
  EpisodeRules rules = short_rules(Scenario::label);
  rules.big_drift = 0;
  const Episode episode = make_episode(rules, make_digits(1), 3);
  EXPECT_EQ(episode.changes[20].size(), 6U);
  for (const auto& changes : episode.changes) {
    for (const Change& change : changes) EXPECT_LT(change.task, 4U) << "nobody defined new groups";
  }
}

TEST(Learner, LearnsAndItsGradientsAreSlopes) {
  const Episode episode = make_episode(short_rules(Scenario::label), make_digits(2), 1);
  const Samples& samples = episode.changes[0][0].data;
  for (const ModelKind kind : {ModelKind::softmax, ModelKind::mlp}) {
    Model model = first_model(kind, 1);
    EXPECT_EQ(model.size(), parameters_of(kind));
    CounterRng random(1, 0);
    const double before = loss_of(model, samples);
    const std::vector<float> rows = gradients_of(model, samples);
    ASSERT_EQ(rows.size(), samples.size() * model.size());
    for (const size_t parameter : {size_t{205}, size_t{311}, size_t{644}, model.size() - 200, model.size() - 7}) {
      double slope = 0;
      for (size_t i = 0; i < samples.size(); ++i) slope += double{rows[i * model.size() + parameter]} / static_cast<double>(samples.size());
      Model above = model, below = model;
      above[parameter] += 5e-3F;
      below[parameter] -= 5e-3F;
      EXPECT_NEAR((loss_of(above, samples) - loss_of(below, samples)) / 1e-2, slope, 2e-3) << name_of(kind) << " " << parameter;
    }
    train(model, samples, {.epochs = 20}, random);
    EXPECT_LT(loss_of(model, samples), before / 2);
    EXPECT_GT(accuracy_of(model, samples), 0.9);
  }
}

StudyRules short_study(Scenario scenario, std::vector<Method> methods) {
  StudyRules rules{.episode = short_rules(scenario), .method = {}, .methods = std::move(methods)};
  rules.seeds = 2;
  return rules;
}

TEST(Study, OursFollowsNewLabelsWithOneReclustering) {
  StudyRules rules =
      short_study(Scenario::label, {Method::fedavg, Method::fixed_clusters, Method::recluster_always, Method::isthmus, Method::oracle});
  const Study study = run_study(rules, make_digits(1)).value();
  for (uint32_t seed = 0; seed < rules.seeds; ++seed) {
    const Summary &fedavg = study.summaries[0][seed], &fixed = study.summaries[1][seed], &always = study.summaries[2][seed],
                  &ours = study.summaries[3][seed], &oracle = study.summaries[4][seed];
    EXPECT_EQ(ours.global_reclusterings, 1U);
    EXPECT_EQ(always.global_reclusterings, 3U);
    EXPECT_EQ(fixed.global_reclusterings, 0U);
    EXPECT_GT(ours.mean_agreement, 0.99);
    EXPECT_LT(fixed.mean_agreement, 0.7);
    EXPECT_GT(ours.mean_accuracy, fedavg.mean_accuracy);
    EXPECT_GT(ours.mean_accuracy, fixed.mean_accuracy);
    EXPECT_NEAR(ours.mean_accuracy, oracle.mean_accuracy, 0.02);
  }
}

TEST(Study, IfcaSendsAllModelsDown) {
  const Study study = run_study(short_study(Scenario::rotation, {Method::fedavg, Method::ifca, Method::isthmus}), make_digits(1)).value();
  EXPECT_EQ(study.summaries[1][0].bytes_down, 4 * study.summaries[0][0].bytes_down);
  EXPECT_EQ(study.summaries[1][0].bytes_up, study.summaries[0][0].bytes_up);
  EXPECT_NEAR(study.summaries[2][0].bytes_down, study.summaries[0][0].bytes_down, 0.15 * study.summaries[0][0].bytes_down);
}

TEST(Study, DoesNotDependOnThreads) {
  StudyRules rules = short_study(Scenario::concept_swap, {Method::isthmus, Method::migrate_only});
  rules.threads = 1;
  const std::string alone = study_json(run_study(rules, make_digits(3)).value());
  rules.threads = 3;
  EXPECT_EQ(alone, study_json(run_study(rules, make_digits(3)).value()));
}

TEST(Study, JsonHasMeansAndLists) {
  const Study study = run_study(short_study(Scenario::dirichlet, {Method::isthmus, Method::fedavg}), make_digits(1)).value();
  const auto json = nlohmann::json::parse(study_json(study));
  const auto& ours = json["methods"]["isthmus"];
  for (const char* name : {"mean_accuracy", "final_accuracy", "global_reclusterings"}) {
    ASSERT_EQ(ours["per_seed"][name].size(), 2U) << name;
    EXPECT_NEAR(ours[name].get<double>(), (ours["per_seed"][name][0].get<double>() + ours["per_seed"][name][1].get<double>()) / 2, 1e-12);
  }
  EXPECT_TRUE(ours["adjusted_rand_index"].is_null()) << "there are no groups to agree with";
  EXPECT_EQ(json["images"], "made-up images");
  const std::string text = study_text(study);
  EXPECT_THAT(text, HasSubstr("# images: made-up images\n"));
  EXPECT_THAT(text, HasSubstr("\nisthmus "));
  const std::string drawing = timeline_svg(study);
  EXPECT_THAT(drawing, testing::StartsWith("<svg "));
  EXPECT_THAT(drawing, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(drawing, HasSubstr("fedavg"));
}

TEST(Study, DrawsAndWritesWhateverItsImagesAreCalled) {
  StudyRules rules = short_study(Scenario::label, {Method::fedavg});
  rules.method.tau = 0;
  Study study = run_study(rules, make_digits(1)).value();
  study.source = "a\xff<&\x01.csv";
  const std::string drawing = timeline_svg(study);
  EXPECT_THAT(drawing, HasSubstr("images: a?&lt;&amp;?.csv</text>"));
  EXPECT_EQ(drawing.find("nan"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(study_json(study))["images"], "a\xef\xbf\xbd<&\x01.csv");
}

TEST(NumberTable, ReadsNamesCommentsAndNumbers) {
  const NumberTable table = parse_number_table("# c\n\na, b\n1,2.5\n\n-3e1,4\n").value();
  EXPECT_EQ(table.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table.values, (std::vector<double>{1, 2.5, -30, 4}));
  EXPECT_EQ(table.line_of, (std::vector<size_t>{4, 6}));
}

TEST(NumberTable, ReadsWhatSpreadsheetsWrite) {
  const ClientTable clients = parse_clients("\xef\xbb\xbf\"Client\" , \"shares, first\",\"b\"\r\n7,\"0.25\",0.75\r\n").value();
  EXPECT_EQ(clients.ids, (std::vector<uint64_t>{7}));
  EXPECT_EQ(clients.names, (std::vector<std::string>{"shares, first", "b"}));
  EXPECT_EQ(clients.values, (std::vector<float>{0.25F, 0.75F}));
  EXPECT_EQ(parse_clients("\xef\xbb\xbf"
                          "1,2\n")
                ->dims,
            2U);
  EXPECT_TRUE(parse_clients("1,2\n")->names.empty());
  EXPECT_EQ(parse_number_table("\"a,b\n1,2\n")->names, (std::vector<std::string>{"\"a", "b"})) << "never closed";
}

std::string refusal_of(std::string_view text) { return parse_clients(text).status().text(); }

TEST(NumberTable, RefusalsNameThePlace) {
  EXPECT_EQ(refusal_of("a,b\n1,2\n3,x\n"), "line 3, column 2: 'x' is no finite number");
  EXPECT_EQ(refusal_of("1,2\n3,\n"), "line 2, column 2: '' is no finite number");
  EXPECT_EQ(refusal_of("1,2\n3\n"), "line 2: 1 columns, where the first line has 2");
  EXPECT_EQ(refusal_of("1,inf\n"), "line 1, column 2: 'inf' is no finite number");
  EXPECT_EQ(refusal_of(""), "there are no rows of numbers");
  EXPECT_EQ(refusal_of("client,samples\n1,2\n"), "no column holds a representation");
  EXPECT_EQ(refusal_of("client,a\n1,2\n1,3\n"), "line 3: client 1 is in line 2 already");
  EXPECT_EQ(refusal_of("client,a\n-1,2\n"), "line 2, column 1: -1 is no whole number from 0 to 9007199254740991");
  EXPECT_THAT(refusal_of("client,a\n9007199254740993,2\n"), HasSubstr("is no whole number")) << "it reads as 2^53";
  EXPECT_EQ(parse_clients("client,a\n9007199254740991,2\n")->ids[0], 9007199254740991U);
  EXPECT_EQ(refusal_of("samples,a\n0,2\n"), "line 2, column 1: a client without samples has no representation");
  EXPECT_EQ(refusal_of("1e300,2\n"), "line 1, column 1: beyond float32");
  EXPECT_EQ(refusal_of("client,client,a\n1,1,2\n"), "there are two columns 'client'");
}

TEST(NumberTable, DigitsAreChecked) {
  const auto text = [](int grey, int label, int lines) {
    std::string line;
    for (uint32_t i = 0; i < kPixels; ++i) line += std::to_string(grey) + ",";
    std::string all;
    for (int i = 0; i < lines; ++i) all += line + std::to_string(label < 0 ? i % 10 : label) + "\n";
    return all;
  };
  EXPECT_EQ(parse_digits(text(16, -1, 120))->size(), 120U);
  EXPECT_THAT(parse_digits(text(17, -1, 120)).status().text(), HasSubstr("line 1, column 1: 17 is no grey value"));
  EXPECT_THAT(parse_digits(text(1, 10, 120)).status().text(), HasSubstr("line 1, column 65: 10 is no digit"));
  EXPECT_THAT(parse_digits(text(1, 3, 120)).status().text(), HasSubstr("fewer than four images of digit 0"));
  EXPECT_THAT(parse_digits(text(1, -1, 20)).status().text(), HasSubstr("20 images; at least 100"));
  EXPECT_THAT(parse_digits("1,2\n").status().text(), HasSubstr("65"));
}

}  // namespace
}  // namespace isthmus::cli
