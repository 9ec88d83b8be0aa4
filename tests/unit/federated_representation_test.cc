// SPDX-License-Identifier: Apache-2.0
// What clients report, when they report it, and what protects a cohort from false reports.
#include "federated/representation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "federated/defences.h"
#include "federated/detection.h"
#include "federated_clients.h"

namespace isthmus::federated {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Representation, LabelHistograms) {
  const std::vector<uint64_t> counts = {30, 10, 0, 0};
  EXPECT_THAT(*label_histogram(counts), ElementsAre(0.75F, 0.25F, 0, 0));
  EXPECT_THAT(*label_histogram(counts, 10), ElementsAre(0.5F, 0.25F, 0.125F, 0.125F));
  EXPECT_FALSE(label_histogram(std::vector<uint64_t>(4)).ok());
}

TEST(Representation, MeanEmbeddings) {
  const std::vector<float> samples = {1, 10, 3, 10};
  const Points points{.values = samples, .dims = 2};
  EXPECT_THAT(*mean_embedding(points), ElementsAre(2, 10));
  EXPECT_THAT(*mean_embedding(points, true), ElementsAre(2, 10, 1, 0));
  EXPECT_THAT(*class_means(points, std::vector<uint32_t>{2, 0}, 3), ElementsAre(3, 10, 2, 10, 1, 10));
  EXPECT_THAT(class_means(points, std::vector<uint32_t>{2, 3}, 3).status().text(), HasSubstr("label 3 of sample 1"));
  EXPECT_FALSE(mean_embedding({.values = {}, .dims = 2}).ok());
}

TEST(Representation, SketchesKeepDistances) {
  CounterRng random(1, 0);
  for (const size_t size : {size_t{50}, size_t{650}, size_t{20'000}}) {
    double error = 0;
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<float> a(size), b(size);
      for (float& one : a) one = static_cast<float>(normal(random));
      for (float& one : b) one = static_cast<float>(normal(random));
      const auto of_a = sketch(a, 256, 7), of_b = sketch(b, 256, 7);
      error += distance(Metric::l2, *of_a, *of_b) / distance(Metric::l2, a, b) - 1;
      EXPECT_NEAR(distance(Metric::l2, *of_a, *of_b) / distance(Metric::l2, a, b), 1, 0.25);
    }
    EXPECT_NEAR(error / 20, 0, 0.05);
  }
  const std::vector<float> values(100, 1);
  EXPECT_EQ(*sketch(values, 64, 3), *sketch(values, 64, 3));
  EXPECT_NE(*sketch(values, 64, 3), *sketch(values, 64, 4));
  EXPECT_THAT(sketch(values, 100, 3).status().text(), HasSubstr("64, 128, 256"));
}

TEST(Representation, GradientsAreDirections) {
  std::vector<float> gradient(650);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::sin(static_cast<float>(i));
  auto twice = gradient;
  for (float& one : twice) one *= 2;
  for (const uint32_t dims : {0U, 128U}) {
    const auto a = gradient_direction(gradient, dims, 5).value(), b = gradient_direction(twice, dims, 5).value();
    EXPECT_NEAR(distance(Metric::l2, a, b), 0, 1e-6);
    EXPECT_TRUE(check_values({.kind = RepKind::gradient, .dims = dims == 0 ? 650 : dims}, a).ok());
  }
  EXPECT_FALSE(gradient_direction(std::vector<float>(650), 128, 5).ok());
}

TEST(Representation, OtherProbesAreErrors) {
  const RepHeader ours{.kind = RepKind::gradient, .dims = 64, .probe_hash = 1, .seed = 2};
  EXPECT_TRUE(check_same(ours, ours).ok());
  RepHeader theirs = ours;
  theirs.probe_hash = 3;
  theirs.seed = 4;
  const Status status = check_same(ours, theirs);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.text(), HasSubstr("probe 0000000000000003 instead of 0000000000000001, seed 4 instead of 2"));
}

TEST(Representation, WhatIsNoHistogramIsRefused) {
  const RepHeader header{.kind = RepKind::label, .dims = 3};
  const auto text = [&](std::vector<float> values) { return check_values(header, values).text(); };
  EXPECT_EQ(text({0.5F, 0.25F, 0.25F}), "");
  EXPECT_THAT(text({0.5F, 0.5F}), HasSubstr("2 numbers, where there must be 3"));
  EXPECT_THAT(text({1.5F, -0.5F, 0}), HasSubstr("label 1 has the share -0.5"));
  EXPECT_THAT(text({0.5F, 0.4F, 0}), HasSubstr("sum to 0.9 instead of 1"));
  EXPECT_THAT(text({NAN, 0.5F, 0.5F}), HasSubstr("number 0"));
}

TEST(Detection, SilentOnNoiseAndAwakeToDrift) {
  CounterRng random(3, 0);
  const LabelSets before = sets_before(), after = sets_after();
  std::vector<uint32_t> everything(kLabels);
  std::iota(everything.begin(), everything.end(), 0U);
  int false_alarms = 0, missed = 0;
  const int trials = 500;
  for (int trial = 0; trial < trials; ++trial) {
    const auto& group = before[random.below(4)];
    const auto same = [&](const std::vector<uint32_t>& labels) { return histogram_of(labels, random); };
    const auto drifted = [&](const std::vector<float>& a, const std::vector<float>& b) {
      return has_drifted(Metric::l1, a, b, histogram_threshold(a, kSamples, b, kSamples));
    };
    false_alarms += drifted(same(group), same(group)) + drifted(same(everything), same(everything));
    missed += !drifted(same(group), same(after[random.below(4)]));
  }
  EXPECT_LE(false_alarms, 2 * 2 * trials / 100);  // two looks a trial
  EXPECT_LE(missed, trials / 100);
}

TEST(Detection, MeansScatterAsTheySay) {
  CounterRng random(4, 0);
  const uint32_t dims = 20;
  const auto draw = [&](double shift) {
    std::vector<float> samples;
    for (uint32_t i = 0; i < kSamples * dims; ++i) samples.push_back(static_cast<float>(normal(random) * (1 + i % dims) + shift));
    return samples;
  };
  int false_alarms = 0, missed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto a = draw(0), b = draw(0), c = draw(8);
    const auto mean = [&](const std::vector<float>& values) { return mean_embedding({.values = values, .dims = dims}).value(); };
    const double threshold = mean_threshold(scatter_of({.values = a, .dims = dims}), kSamples, kSamples);
    false_alarms += has_drifted(Metric::l2, mean(a), mean(b), threshold);
    missed += !has_drifted(Metric::l2, mean(a), mean(c), threshold);
  }
  EXPECT_LE(false_alarms, 6);
  EXPECT_EQ(missed, 0);
}

TEST(Detection, AFloorKeepsSmallDriftSilent) {
  const std::vector<float> a = {0.5F, 0.5F}, b = {0.6F, 0.4F};
  EXPECT_TRUE(has_drifted(Metric::l1, a, b, 0.1));
  EXPECT_FALSE(has_drifted(Metric::l1, a, b, 0.1, 0.3));
}

TEST(Defences, TrimmedCentresDoNotFollowLiars) {
  std::vector<float> values;
  for (int i = 0; i < 18; ++i) values.push_back(static_cast<float>(i % 3));
  values.insert(values.end(), {1000, -5000});
  const std::vector<uint32_t> together(20, 0);
  const std::vector<float> centre = {1, 7};  // the second cluster is empty and stays
  const Points points{.values = values, .dims = 1}, centres{.values = centre, .dims = 1};
  EXPECT_THAT(trimmed_means(points, together, centres, 0.1), ElementsAre(1, 7));
  const auto clipped = clipped_means(Metric::l2, points, together, centres, 2);
  EXPECT_NEAR(clipped[0], 1, 1e-6);
  EXPECT_EQ(clipped[1], 7);
}

TEST(Defences, MovesAreCappedByWindow) {
  Moves moves;
  const MoveCap cap{.moves = 2, .window_rounds = 10};
  EXPECT_TRUE(moves.allow(cap, 1));
  EXPECT_TRUE(moves.allow(cap, 2));
  EXPECT_FALSE(moves.allow(cap, 9));
  EXPECT_TRUE(moves.allow(cap, 10));
  EXPECT_TRUE(Moves{}.allow({}, 1));
}

TEST(Defences, DisagreementOnEndIsQuarantine) {
  Conduct conduct;
  const QuarantineRules rules{.min_cosine = 0, .rounds = 3};
  for (const double cosine : {-0.5, -0.1, 0.4, -0.5, -0.5}) conduct.observe(rules, cosine);
  EXPECT_FALSE(conduct.quarantined);
  conduct.observe(rules, -0.2);
  EXPECT_TRUE(conduct.quarantined);
  const std::vector<float> a = {1, 2}, b = {-2, -4}, zero = {0, 0};
  EXPECT_NEAR(cosine(a, b), -1, 1e-12);
  EXPECT_EQ(cosine(a, zero), 0);
}

}  // namespace
}  // namespace isthmus::federated
