// SPDX-License-Identifier: Apache-2.0
// Sums of a cohort at their edges: noise and what holds it, limits of short vectors, weights between units; members that are stale, lie or
// go at the worst moment; and how much is done in one poll.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "federated/group_sum.h"
#include "federated/private_kmeans.h"
#include "federated_cohort.h"

namespace isthmus::federated {
namespace {

using ::testing::HasSubstr;

const Masking& masking() { return *Masking::load().value(); }

std::unique_ptr<const codec::Thc> thc_for(uint32_t ranks) { return codec::make_thc(*codec::parse_thc("thc"), ranks).value(); }

GroupRules noisy_rules(double noise) {
  GroupRules rules = masked_rules();
  rules.noise = noise;
  return rules;
}

// --- noise -----------------------------------------------------------------------------------------------------------------------

/// A cohort of three with weight 1 and vectors that are `value` everywhere: what one of them takes for the mean.
struct NoisyCohort {
  static constexpr uint32_t kRanks = 3;
  GroupRules rules;
  Cohort job;
  std::vector<GroupSum> members;

  explicit NoisyCohort(double noise) : rules(noisy_rules(noise)), job(of(kRanks, rules)) {
    job.add_all();
    for (uint32_t rank = 0; rank < kRanks; ++rank) members.emplace_back(GroupOptions{.rules = rules}, &masking());
  }
  std::vector<float> mean_of(float value, size_t count) {
    const std::vector<float> x(count, value);
    std::vector<float> mean(count);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(members[rank].begin(x, 1, *job.thc, kSmallChunk, random_bytes).ok());
      Rank& one = job.ranks[rank];
      one.status = one.machine->begin(members[rank].contribution(), job.now);
      one.calling = one.status.ok();
    }
    EXPECT_TRUE(job.finish());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(job.ranks[rank].status.ok()) << job.ranks[rank].status.text();
      EXPECT_TRUE(members[rank].finish(job.ranks[rank].result.weight_sum, true, mean).ok());
    }
    return mean;
  }
};

struct Moments {
  double mean = 0, deviation = 0;

  explicit Moments(const std::vector<float>& values) {
    const auto n = static_cast<double>(values.size());
    mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    for (const float v : values) deviation += (v - mean) * (v - mean) / n;
    deviation = std::sqrt(deviation);
  }
};

/// Standard deviation of a mean of `members`, each with noise.
double predicted(const GroupRules& rules, size_t count, uint32_t members) { return noise_sigma(rules, count) / std::sqrt(members); }

TEST(GroupNoise, IsInTheMeanAsLargeAsItSaysAndLeavesItWhereItIs) {
  for (const double noise : {0.05, 2.0}) {
    NoisyCohort cohort(noise);
    const double deviation = predicted(cohort.rules, kCount, NoisyCohort::kRanks);
    const Moments seen(cohort.mean_of(1.5F, kCount));
    EXPECT_NEAR(seen.mean, 1.5, 6 * deviation / std::sqrt(kCount));
    EXPECT_NEAR(seen.deviation, deviation, 0.06 * deviation) << "noise " << noise;
  }
}

TEST(GroupNoise, IsAsLargeInShortVectors) {
  constexpr size_t kShort = 10, kRounds = 200;
  NoisyCohort cohort(1);
  std::vector<float> all;
  for (size_t round = 0; round < kRounds; ++round) {
    const std::vector<float> mean = cohort.mean_of(-1, kShort);
    all.insert(all.end(), mean.begin(), mean.end());
  }
  const double deviation = predicted(cohort.rules, kShort, NoisyCohort::kRanks);
  const Moments seen(all);
  EXPECT_NEAR(seen.mean, -1, 6 * deviation / std::sqrt(all.size()));
  EXPECT_NEAR(seen.deviation, deviation, 0.2 * deviation);
}

TEST(GroupNoise, IsAgreedUpon) {
  Cohort job(of(3, masked_rules()));
  job.add(0, {.group = noisy_rules(1)});
  job.run(kSecondNs, [&] { return !job.ranks[0].status.ok(); });
  EXPECT_EQ(job.ranks[0].status.code(), Code::invalid_usage);
  EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("noise 1, but the aggregator has"));
  EXPECT_TRUE(check(noisy_rules(1), 3).ok());
  for (const double wrong : {-1.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) EXPECT_FALSE(check(noisy_rules(wrong), 3).ok());
  EXPECT_FALSE(check(GroupRules{.noise = 1}, 3).ok()) << "without masks";
  GroupRules large = noisy_rules(1000);
  large.clip = 1e15F;
  GroupSum sum({.rules = large}, &masking());
  EXPECT_THAT(sum.begin(std::vector<float>(10), 1, *thc_for(3), kSmallChunk, random_bytes).text(), HasSubstr("the most that is encoded"));
}

/// Else it would be limited together with the next vector, and nothing be left of that.
TEST(GroupNoise, IsNotCarried) {
  GroupRules rules = noisy_rules(1000);
  rules.largest_weight = 3;
  const auto thc = thc_for(3);
  GroupSum sum({.rules = rules, .late = LatePolicy::carry, .carry_factor = 1}, &masking());
  std::vector<float> x(1000, 1.0F), mean(1000);
  ASSERT_TRUE(sum.begin(x, 1, *thc, kSmallChunk, random_bytes).ok());
  ASSERT_TRUE(sum.finish(units_of_weight(1), false, mean).ok());
  ASSERT_TRUE(sum.begin(x, 1, *thc, kSmallChunk, random_bytes).ok());
  EXPECT_NEAR(sum.largest_before_clip(), 2.0 / 3, 1e-6);
}

// --- limits and weights ----------------------------------------------------------------------------------------------------------

/// The greatest length of a vector is what privacy counts with.
TEST(GroupLimits, HoldForTheElementsThatAreThere) {
  const auto thc = thc_for(3);
  GroupSum sum({.rules = masked_rules()}, &masking());
  for (const size_t count : {size_t{1}, size_t{10}, size_t{65}, size_t{5000}, kCount}) {
    ASSERT_TRUE(sum.begin(std::vector<float>(count, 100), 1, *thc, kSmallChunk, random_bytes).ok());
    EXPECT_NEAR(sum.largest_before_clip(), 100, 1e-4);
    const auto* sent = static_cast<const float*>(sum.contribution().in);
    double squares = 0;
    for (size_t i = 0; i < count; ++i) squares += double{sent[i]} * sent[i];
    EXPECT_NEAR(std::sqrt(squares), kClip * std::sqrt(count), 1e-3 * std::sqrt(count)) << count;
  }
}

TEST(GroupWeights, DivideWhatTheyHaveMultiplied) {
  const GroupRules rules = plain_rules(0.3);
  const auto thc = thc_for(3);
  const std::vector<float> x(10, 3.0F);
  std::vector<float> mean(10);
  for (const double weight : {0.7 * kWeightUnit, 1.4 * kWeightUnit, 0.1, 0.3}) {
    GroupSum sum({.rules = rules, .late = LatePolicy::carry, .carry_factor = 0.3}, nullptr);
    ASSERT_TRUE(sum.begin(x, weight, *thc, kSmallChunk, random_bytes).ok());
    ASSERT_TRUE(sum.finish(sum.contribution().weight, false, mean).ok());
    EXPECT_FLOAT_EQ(mean[0], 3) << weight;
    // What is carried, alone.
    ASSERT_TRUE(sum.begin(x, 0, *thc, kSmallChunk, random_bytes).ok());
    EXPECT_NEAR(weight_of(sum.contribution().weight), 0.3 * weight, 0.7 * kWeightUnit);
    if (sum.contribution().weight == 0) continue;
    ASSERT_TRUE(sum.finish(sum.contribution().weight, true, mean).ok());
    EXPECT_FLOAT_EQ(mean[0], 3) << weight << ", carried";
  }
}

TEST(GroupWeights, ThatWouldCountAsNothingAreRefused) {
  const auto thc = thc_for(3);
  GroupSum sum({.rules = plain_rules()}, nullptr);
  const std::vector<float> x(10, 3.0F);
  const Status refused = sum.begin(x, 0.4 * kWeightUnit, *thc, kSmallChunk, random_bytes);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_THAT(refused.text(), HasSubstr("would count as 0"));
  EXPECT_TRUE(sum.begin(x, 0, *thc, kSmallChunk, random_bytes).ok());
  EXPECT_FALSE(check(plain_rules(0.4 * kWeightUnit), 3).ok());
}

// --- who is stale, lies, or goes -------------------------------------------------------------------------------------------------

TEST(GroupEpochs, WhoIsStaleIsRefusedAloneAlsoIfItComesFirst) {
  for (const GroupRules& rules : {plain_rules(), masked_rules()}) {
    JobOptions options = of(3, rules, 2);
    options.epoch = 7;
    options.follows_epochs = true;
    Cohort job(options);
    job.add_all();
    job.contribute(2, 3);
    job.pass(20 * kMillisecondNs);
    for (const uint32_t rank : {0U, 1U}) {
      job.ranks[rank].machine->set_epoch(8);
      job.contribute(rank, 3);
    }
    ASSERT_TRUE(job.finish());
    EXPECT_EQ(job.ranks[2].status.code(), Code::invalid_usage);
    EXPECT_THAT(job.ranks[2].status.text(), HasSubstr("contributes to epoch 7 of the cohort, and round 1 is of epoch 8"));
    job.expect_same({0, 1}, {0, 1});
    EXPECT_EQ(job.ranks[0].result.round, 1U) << "no round has failed";
    EXPECT_EQ(job.aggregator->counters().stale, 1U);
    for (auto& [rank, one] : job.ranks) one.machine->set_epoch(8);
    job.contribute_all();
    ASSERT_TRUE(job.finish());
    job.expect_same({0, 1}, {0, 1});
  }
}

/// A process that has told everybody may end, also before they have read it.
TEST(GroupSums, AreThereWhereTheAggregatorEndsRightAfterwards) {
  for (const GroupRules& rules : {plain_rules(), masked_rules()}) {
    Cohort job(of(3, rules));
    job.add_all();
    job.contribute_all();
    std::unique_ptr<Aggregator> aggregator = std::move(job.aggregator);  // polled in between, so that its last words lie there
    for (int turn = 0; turn < 100 && aggregator->take_reports().empty(); ++turn) {
      job.pass(5 * kMillisecondNs);
      aggregator->poll(job.now);
    }
    ASSERT_TRUE(aggregator->told(1));
    ASSERT_TRUE(job.anybody_calls());
    aggregator.reset();
    ASSERT_TRUE(job.finish());
    job.expect_same({0, 1, 2}, {0, 1, 2});
  }
}

/// Without a deadline everybody that is left reveals, and that may be too few.
TEST(GroupMasks, FailWithoutADeadlineWhenTooFewAreLeftToTakeThemAway) {
  GroupRules rules = masked_rules();
  rules.masks.threshold = 3;
  JobOptions options = of(3, rules, 2);
  options.deadline_ns = kNever;
  Cohort job(options);
  job.add_all();
  job.contribute_all();
  const size_t words = kCount * word_bits(3, job.thc->config.granularity) / 8;
  ASSERT_TRUE(job.run(kSecondNs, [&] { return job.ranks.at(2).machine->result().sent_bytes > words; }));
  job.kill(2);
  ASSERT_TRUE(job.finish());
  for (const uint32_t rank : {0U, 1U}) {
    EXPECT_EQ(job.ranks[rank].status.code(), Code::remote_error);
    EXPECT_THAT(job.ranks[rank].status.text(), HasSubstr("2 of the 3 shares that take rank 0's masks away have come; rank 2 did not"));
  }
}

/// A round of a cohort of two with vectors of three chunks, without links.
struct TwoOfThem {
  std::unique_ptr<const codec::Thc> thc = thc_for(2);
  Round round;
  size_t polls = 0;  ///< that changed something

  explicit TwoOfThem(const GroupRules& rules, uint64_t elements_at_once = 4 << 20)
      : round(1, *thc, kernels::select_target(),
              {.ranks = 2,
               .quorum = 2,
               .chunk_elements = kSmallChunk,
               .max_elements = 1 << 20,
               .group = rules,
               .masking = &masking(),
               .elements_at_once = elements_at_once},
              [](uint32_t) { return std::string(); }) {
    const size_t groups = AggregateGrid(*thc, kCount, kSmallChunk).groups();
    const std::vector<std::byte> said(rules.masked ? Advertisement::kBytes : 4 * groups, std::byte{1});
    for (const uint32_t rank : {0U, 1U}) EXPECT_TRUE(round.offer(rank, {.count = kCount}, said, 0).ok());
    settle();
  }
  void settle() {
    while (round.poll(0)) ++polls;
  }
  Status send(uint32_t rank, uint32_t chunk, uint64_t weight) {
    return round.add(rank, chunk, std::vector<std::byte>(round.outcome()->grid.index_bytes(chunk)), 0, weight);
  }
};

TEST(GroupRounds, TakeNoVectorWhileMasksAreBeingSettled) {
  TwoOfThem masked(masked_rules());
  ASSERT_TRUE(masked.round.is_due_from(0));
  EXPECT_THAT(masked.send(0, 0, 1).text(), HasSubstr("before masks are settled"));
  TwoOfThem plain(plain_rules());
  EXPECT_TRUE(plain.send(0, 0, 1).ok());
}

TEST(GroupRounds, TakeNoWeightBeyondTheLargest) {
  TwoOfThem plain(plain_rules(2));
  EXPECT_THAT(plain.send(0, 0, units_of_weight(2) + 1).text(), HasSubstr("2 is the largest"));
  EXPECT_TRUE(plain.send(0, 0, units_of_weight(2)).ok());
}

// --- how much at a time ----------------------------------------------------------------------------------------------------------

TEST(GroupRounds, DoAsMuchInAPollAsTheyAreTold) {
  constexpr size_t kChunks = 3, kOther = 3;  // beginning, settling who counts, ending
  for (const uint64_t at_once : {uint64_t{1}, uint64_t{4} << 20}) {
    TwoOfThem plain(plain_rules(), at_once);
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk)
      for (const uint32_t rank : {0U, 1U}) ASSERT_TRUE(plain.send(rank, chunk, 1).ok());
    EXPECT_EQ(plain.round.outcome()->sums.size(), 0U);
    plain.settle();
    EXPECT_TRUE(plain.round.outcome()->finished);
    if (at_once == 1) {
      EXPECT_GE(plain.polls, 2 * kChunks + kChunks) << "each chunk of each vector, then each sum";
    } else {
      EXPECT_LE(plain.polls, kOther + 2);
    }
  }
}

TEST(GroupMasks, GoAwayInAsManyPollsAsItTakes) {
  constexpr uint32_t kRanks = 5, kChunks = 3;
  TimeNs took[2] = {};
  for (const bool slow : {false, true}) {
    JobOptions options = of(kRanks, masked_rules());
    options.deadline_ns = 10 * kSecondNs;
    if (slow) options.elements_at_once = 1;
    Cohort job(options);
    job.add_all();
    const TimeNs began = job.now;
    job.contribute_all();
    ASSERT_TRUE(job.finish());
    took[slow ? 1 : 0] = job.now - began;
    const std::vector<uint32_t> all = {0, 1, 2, 3, 4};
    job.expect_same(all, {all.begin(), all.end()});
    std::vector<std::vector<std::byte>> inputs(kRanks);
    for (const uint32_t rank : all) inputs[rank] = Job::input(rank, kCount, 0);
    const testing::Direct direct{.thc = *job.thc,
                                 .seed = job.ranks.begin()->second.machine->terms().seed,
                                 .round = 1,
                                 .chunk_elements = kSmallChunk,
                                 .fixed_scale = kClip};
    EXPECT_EQ(job.ranks[0].out, direct.result(inputs, all, all));
  }
  // A poll for each chunk of each vector and for each mask of each chunk, less what a few polls do otherwise.
  constexpr TimeNs kPollNs = 5 * kMillisecondNs;
  EXPECT_GE(took[1] - took[0], (2 * kRanks * kChunks - 6) * kPollNs);
}

// --- private k-means -------------------------------------------------------------------------------------------------------------

TEST(PrivateKmeans, RefusesCentresThatAreNone) {
  const Centres good{.count = 2, .dimension = 2, .values = {0, 0, 1, 1}};
  const std::vector<float> x = {0.5F, 0.25F};
  const auto refuses = [&](const Centres& centres, uint64_t members) {
    std::vector<uint32_t> words(lloyd_words(centres), 1);
    const Status added = add_to_lloyd(centres, x, members, words);
    return added.code() == Code::invalid_argument && finish_lloyd(centres, words, members).status().code() == Code::invalid_argument &&
           words == std::vector<uint32_t>(words.size(), 1);
  };
  std::vector<uint32_t> words(lloyd_words(good));
  ASSERT_TRUE(add_to_lloyd(good, x, kMostLloydMembers, words).ok());
  EXPECT_TRUE(finish_lloyd(good, words, kMostLloydMembers).ok());
  EXPECT_TRUE(refuses(good, 0));
  EXPECT_TRUE(refuses(good, kMostLloydMembers + 1)) << "sums would wrap";
  EXPECT_TRUE(refuses({.count = 0, .dimension = 2, .values = {}}, 5));
  EXPECT_TRUE(refuses({.count = 2, .dimension = 2, .values = {0, 0, 1}}, 5));
  EXPECT_TRUE(refuses({.count = 1, .dimension = 0, .values = {}}, 5));
  EXPECT_TRUE(refuses({.count = 2, .dimension = 2, .values = {0, 0, 1, 1}, .least = 1, .most = 1}, 5)) << "no range";
  EXPECT_TRUE(refuses({.count = 2, .dimension = 2, .values = {0, 0, 1, std::numeric_limits<float>::infinity()}}, 5));
  EXPECT_TRUE(
      refuses({.count = 2, .dimension = 2, .values = {0, 0, 1, 1}, .least = 0, .most = std::numeric_limits<float>::quiet_NaN()}, 5));
  words.back() = ~0U;
  EXPECT_FALSE(finish_lloyd(good, words, 5).ok()) << "no member's silhouette is so large";
}

}  // namespace
}  // namespace isthmus::federated
