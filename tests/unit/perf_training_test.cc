// SPDX-License-Identifier: Apache-2.0
// The training check's model, data, command line and byte counts. The model's gradient is held against finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "training/data.h"
#include "training/link_bytes.h"
#include "training/model.h"
#include "training/options.h"

namespace training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kFeatures = 6;
constexpr int kClasses = 4;

Task small_task(uint64_t seed) { return {.seed = seed, .features = kFeatures, .classes = kClasses, .teacher_width = 5}; }

template <typename Scalar>
struct Fixture {
  Mlp<Scalar> model{{kFeatures, 7, 5, kClasses}};
  Examples examples = make_examples(small_task(3), 0, 9);
  typename Mlp<Scalar>::Matrix inputs = examples.inputs.cast<Scalar>();
  std::vector<Scalar> parameters = std::vector<Scalar>(model.parameters());
  std::vector<Scalar> gradient = std::vector<Scalar>(model.parameters(), Scalar{99});

  Fixture() {
    model.initialize(5, parameters);
    for (size_t at = 0; at < parameters.size(); ++at) parameters[at] += static_cast<Scalar>(0.01 * std::sin(static_cast<double>(at)));
  }
  double loss() { return model.evaluate(parameters, inputs, examples.labels).loss; }
};

TEST(Model, GradientAgreesWithFiniteDifferences) {
  Fixture<double> at;
  const double loss = at.model.differentiate(at.parameters, at.inputs, at.examples.labels, at.gradient).loss;
  EXPECT_EQ(loss, at.loss());
  constexpr double kStep = 1e-6;
  double largest = 0;
  for (size_t which = 0; which < at.parameters.size(); ++which) {
    const double before = at.parameters[which];
    at.parameters[which] = before + kStep;
    const double above = at.loss();
    at.parameters[which] = before - kStep;
    const double below = at.loss();
    at.parameters[which] = before;
    EXPECT_NEAR(at.gradient[which], (above - below) / (2 * kStep), 1e-8) << "parameter " << which;
    largest = std::max(largest, std::abs(at.gradient[which]));
  }
  EXPECT_GT(largest, 0.1);  // or nothing was tested
}

TEST(Model, FloatAgreesWithDouble) {
  Fixture<float> narrow;
  Fixture<double> wide;
  EXPECT_NEAR(narrow.model.differentiate(narrow.parameters, narrow.inputs, narrow.examples.labels, narrow.gradient).loss,
              wide.model.differentiate(wide.parameters, wide.inputs, wide.examples.labels, wide.gradient).loss, 1e-5);
  for (size_t at = 0; at < wide.gradient.size(); ++at) EXPECT_NEAR(narrow.gradient[at], wide.gradient[at], 1e-5);
}

TEST(Model, KnowsNothingWithoutWeights) {
  Fixture<double> at;
  std::fill(at.parameters.begin(), at.parameters.end(), 0.0);
  EXPECT_NEAR(at.loss(), std::log(kClasses), 1e-12);
}

TEST(Model, CountsWhatItGetsRight) {
  Mlp<double> model({kFeatures, kClasses});
  std::vector<double> parameters(model.parameters());
  parameters[kFeatures * kClasses + 2] = 50;  // the third class's bias
  const Mlp<double>::Matrix inputs = Mlp<double>::Matrix::Zero(kFeatures, 3);
  const auto score = model.evaluate(parameters, inputs, std::vector<int>{2, 1, 2});
  EXPECT_EQ(score.correct, 2U);
  EXPECT_NEAR(score.loss, 50.0 / 3, 1e-9);
}

TEST(Model, FirstWeightsHaveTheLayersVariance) {
  Mlp<float> model({200, 300, 10});
  std::vector<float> first(model.parameters());
  std::vector<float> again(model.parameters());
  model.initialize(8, first);
  model.initialize(8, again);
  EXPECT_EQ(first, again);
  const double squares = std::inner_product(first.begin(), first.begin() + 200 * 300, first.begin(), 0.0);
  EXPECT_NEAR(squares / (200 * 300), 2.0 / 200, 0.0003);
  EXPECT_EQ(first[200 * 300], 0.0F);  // a bias
}

TEST(Data, FollowsFromSeedAndNumberAlone) {
  const Examples whole = make_examples(small_task(1), 40, 10);
  const Examples later = make_examples(small_task(1), 43, 7);
  EXPECT_EQ(whole.inputs.rightCols(7), later.inputs);
  EXPECT_EQ(std::vector<int>(whole.labels.begin() + 3, whole.labels.end()), later.labels);
  EXPECT_NE(whole.inputs, make_examples(small_task(2), 40, 10).inputs);
  EXPECT_NE(whole.inputs, make_examples(small_task(1), kFirstHeldOut, 10).inputs);
}

TEST(Data, IsTheSameOnEveryMachine) {
  const Examples made = make_examples({.seed = 1}, 0, 8);
  EXPECT_NEAR(made.inputs(0, 0), 0.281796306, 1e-6);
  EXPECT_THAT(made.labels, ElementsAre(3, 7, 7, 0, 0, 3, 0, 5));
}

TEST(Data, InputsAreStandardNormalAndAllClassesOccur) {
  const Examples made = make_examples({.seed = 4}, 0, 4000);
  EXPECT_NEAR(made.inputs.mean(), 0, 0.01);
  EXPECT_NEAR(made.inputs.squaredNorm() / static_cast<float>(made.inputs.size()), 1, 0.02);
  std::vector<int> counts(10);
  for (const int label : made.labels) ++counts.at(static_cast<size_t>(label));
  for (const int count : counts) EXPECT_GT(count, 40);
}

TEST(Data, NoiseDrawsTheGivenShareOfLabelsAnew) {
  constexpr size_t kCount = 20000;
  const Examples clean = make_examples({.seed = 4, .label_noise = 0}, 0, kCount);
  const Examples noisy = make_examples({.seed = 4, .label_noise = 0.2}, 0, kCount);
  size_t changed = 0;
  for (size_t at = 0; at < kCount; ++at) changed += clean.labels[at] != noisy.labels[at] ? 1U : 0U;
  EXPECT_NEAR(static_cast<double>(changed) / kCount, 0.2 * 0.9, 0.01);  // one in ten is drawn as it was
}

TEST(Data, ShardsArePartsThatMakeTheWhole) {
  for (int ranks : {1, 3, 4, 7}) {
    uint64_t next = 100;
    for (int rank = 0; rank < ranks; ++rank) {
      const Shard shard = shard_of(100, 23, rank, ranks);
      EXPECT_EQ(shard.first, next);
      EXPECT_GE(shard.count, 23U / static_cast<size_t>(ranks));
      EXPECT_LE(shard.count, 23U / static_cast<size_t>(ranks) + 1);
      next += shard.count;
    }
    EXPECT_EQ(next, 123U);
  }
}

TEST(Data, MiniBatchesFollowFromSeedRankAndStep) {
  const Examples from = make_examples(small_task(1), 0, 1000);
  const auto batch = [&](uint64_t seed, int rank, uint64_t step) {
    Examples drawn = {.inputs = Eigen::MatrixXf(kFeatures, 16), .labels = std::vector<int>(16)};
    draw_batch(from, seed, rank, step, drawn);
    return drawn;
  };
  const Examples one = batch(1, 2, 3);
  EXPECT_EQ(one.inputs, batch(1, 2, 3).inputs);
  for (const Examples& other : {batch(2, 2, 3), batch(1, 1, 3), batch(1, 2, 4)}) EXPECT_NE(one.inputs, other.inputs);
  for (Eigen::Index at = 0; at < 16; ++at) {
    bool found = false;
    for (Eigen::Index of = 0; of < 1000; ++of) {
      found = found ||
              (from.inputs.col(of) == one.inputs.col(at) && from.labels[static_cast<size_t>(of)] == one.labels[static_cast<size_t>(at)]);
    }
    EXPECT_TRUE(found);
  }
}

TEST(LinkBytes, AreTheSentOnesOfAllInterfacesButTheLoopback) {
  std::istringstream counters(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
      "    lo:  100 1 0 0 0 0 0 0  1000 1 0 0 0 0 0 0\n"
      "  eth0:  200 1 0 0 0 0 0 0  2000 1 0 0 0 0 0 0\n"
      "  eth1:300 1 0 0 0 0 0 0  3000 1 0 0 0 0 0 0\n"
      "broken: 7\n");
  EXPECT_EQ(sum_sent_bytes(counters), 5000U);
}

Parsed parse(std::vector<const char*> words) {
  words.insert(words.begin(), "training_check");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(CommandLine, CodecsMayHaveCommasAndBeSeveral) {
  const Parsed parsed = parse({"--codec", "thc:b=4,ef=on", "--codec", "none", "--hidden", "30,20", "--seed", "7"});
  ASSERT_TRUE(parsed.options.has_value()) << parsed.text;
  EXPECT_THAT(parsed.options->codecs, ElementsAre("thc:b=4,ef=on", "none"));
  EXPECT_THAT(parsed.options->hidden, ElementsAre(30, 20));
  EXPECT_EQ(parsed.options->seed, 7U);
  ASSERT_TRUE(parse({}).options.has_value());
  EXPECT_THAT(parse({}).options->codecs, ElementsAre("none"));
}

TEST(CommandLine, SaysWhatIsWrong) {
  EXPECT_THAT(parse({"--help"}).text, HasSubstr("--learning-rate"));
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"--bogus"}, {"--steps", "0"}, {"--batch", "-1"}, {"--learning-rate", "0"}, {"--momentum", "1"}, {"--hidden", "0"}, {"more"}}) {
    const Parsed parsed = parse(words);
    EXPECT_FALSE(parsed.options.has_value()) << words[0];
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_THAT(parsed.text, HasSubstr("training_check: "));
    EXPECT_THAT(parsed.text, HasSubstr(words[0]));
  }
}

}  // namespace
}  // namespace training
