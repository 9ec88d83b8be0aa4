// SPDX-License-Identifier: Apache-2.0
// Weighted sums of a cohort, plain and masked, through aggregator and contributors: the same bits for everybody, whoever dies whenever; one
// deadline; epochs; few vectors held at a time; sums of integers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "federated/group_sum.h"
#include "federated/nearest.h"
#include "federated/private_kmeans.h"
#include "federated_cohort.h"

namespace isthmus::federated {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The exact mean over the expected error of the codec.
double error_of(const std::vector<std::byte>& out, uint32_t ranks, uint64_t draw = 0) {
  std::vector<float> sum(out.size() / 4);
  std::memcpy(sum.data(), out.data(), out.size());
  double wrong = 0, all = 0;
  std::vector<std::vector<float>> inputs;
  for (uint32_t rank = 0; rank < ranks; ++rank) inputs.push_back(testing::random_vector(sum.size(), draw * 1000 + rank));
  for (size_t i = 0; i < sum.size(); ++i) {
    double exact = 0;
    for (const auto& in : inputs) exact += in[i];
    wrong += (sum[i] - exact) * (sum[i] - exact);
    all += exact * exact;
  }
  return wrong / all;
}

TEST(GroupSums, AreMadeOfWeightsToo) {
  for (const GroupRules& rules : {plain_rules(100), masked_rules(2, 100)}) {
    Cohort job(of(5, rules));
    job.add_all();
    for (uint64_t draw = 0; draw < 3; ++draw) {
      for (auto& [rank, one] : job.ranks) job.contribute(rank, rank * 7 + 1, draw);
      ASSERT_TRUE(job.finish());
      job.expect_same({0, 1, 2, 3, 4}, {0, 1, 2, 3, 4});
      EXPECT_EQ(job.ranks[0].result.weight_sum, 75U);
      EXPECT_LT(error_of(job.ranks[0].out, 5, draw), rules.masked ? 0.3 : 0.05);
    }
  }
}

TEST(GroupSums, AreTheSameBitsMaskedOrNot) {
  // The same levels, once as they are and once masked: by integers, which the codec has no part in.
  for (const uint32_t ranks : {2U, 3U, 10U}) {
    std::vector<std::vector<std::byte>> outs;
    for (const GroupRules& rules : {plain_rules(), masked_rules()}) {
      Cohort job(of(ranks, rules));
      job.add_all();
      for (auto& [rank, one] : job.ranks) {
        one.in.resize(4 * 20000);
        CounterRng rng(rank, 5);
        for (std::byte& byte : one.in) byte = static_cast<std::byte>(rng.next_u64());
        one.out.assign(one.in.size(), std::byte{});
        one.signature = {.count = 20000, .type = DataType::uint32, .op = ReduceOp::sum};
        job.begin(rank, one.out.data());
      }
      ASSERT_TRUE(job.finish());
      std::vector<uint32_t> everybody;
      for (uint32_t rank = 0; rank < ranks; ++rank) everybody.push_back(rank);
      job.expect_same(everybody, {everybody.begin(), everybody.end()});
      outs.push_back(job.ranks[0].out);
      std::vector<uint32_t> sum(20000), one(20000);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        std::memcpy(one.data(), job.ranks[rank].in.data(), one.size() * 4);
        add_words(sum, one);
      }
      EXPECT_EQ(std::memcmp(sum.data(), outs.back().data(), 4 * sum.size()), 0) << "modulo 2^32";
    }
    EXPECT_EQ(outs[0], outs[1]);
  }
}

/// The levels of masked vectors are those that the kernels make by the common clip, added up.
TEST(GroupSums, MaskedLevelsAreTheKernelsAtEveryDropOut) {
  for (const uint32_t ranks : {2U, 3U, 10U}) {
    const uint32_t threshold = ranks / 2 + 1;
    for (uint32_t lost = 0; lost <= ranks - threshold; ++lost) {
      Cohort job(of(ranks, masked_rules()));
      job.network.capacity = 4096;  // so that vectors take a while
      job.add_all();
      job.contribute_all();
      // Some die when everybody's masks are in everybody's words.
      ASSERT_TRUE(job.run(kSecondNs, [&] { return job.words_have_begun(); }));
      for (uint32_t i = 0; i < lost; ++i) job.kill(ranks - 1 - i);
      ASSERT_TRUE(job.finish());
      std::vector<uint32_t> survivors;
      for (uint32_t rank = 0; rank < ranks - lost; ++rank) survivors.push_back(rank);
      job.expect_same(survivors, {survivors.begin(), survivors.end()});
      std::vector<std::vector<std::byte>> inputs;
      for (uint32_t rank = 0; rank < ranks; ++rank) inputs.push_back(Job::input(rank, kCount, 0));
      const auto direct = testing::Direct{.thc = *job.thc,
                                          .seed = job.ranks.begin()->second.machine->terms().seed,
                                          .round = 1,
                                          .chunk_elements = kSmallChunk,
                                          .fixed_scale = kClip}
                              .result(inputs, survivors, survivors);
      EXPECT_EQ(job.ranks[0].out, direct) << ranks << " ranks, " << lost << " lost";
    }
  }
}

// --- deadlines -------------------------------------------------------------------------------------------------------------------

/// What a member is doing; it is stopped or killed when it begins to.
enum class Moment : uint8_t { before_offering, gathering, sharing, adding, through };

void die_at(Moment moment, bool masked, bool killed) {
  SCOPED_TRACE(fmt::format("moment {}, masked {}, killed {}", static_cast<int>(moment), masked, killed));
  constexpr uint32_t kRanks = 5;
  const GroupRules rules = masked ? masked_rules() : plain_rules();
  Cohort job(of(kRanks, rules, 3));
  job.network.capacity = 4096;  // so that vectors take a while
  job.add_all();
  const TimeNs began = job.now;
  const auto strike = [&] { killed ? job.kill(4) : static_cast<void>(job.stopped.insert(4)); };
  if (moment == Moment::before_offering) strike();
  for (auto& [rank, one] : job.ranks)
    if (!job.stopped.contains(rank)) job.contribute(rank, 3);
  int waited = 0;
  const auto reached = [&] {
    ++waited;
    switch (moment) {
      case Moment::before_offering:
      case Moment::gathering:
        return true;
      case Moment::sharing:
        return waited > 1;
      case Moment::adding:
        return waited > 8;
      case Moment::through:
        return job.ranks.at(4).result.sent_bytes > 4 * kCount / 8;
    }
    return true;
  };
  if (moment != Moment::before_offering) {
    job.run(kSecondNs / 2, reached);
    strike();
  }
  ASSERT_TRUE(job.run(3 * kSecondNs, [&] { return !job.anybody_calls(); }));
  EXPECT_LE(job.now - began, job.options.deadline_ns + 200 * kMillisecondNs);
  const std::set<uint32_t> counted = [&] {
    const auto all = Job::numbers(job.ranks.at(0).result.contributors);
    return std::set<uint32_t>(all.begin(), all.end());
  }();
  job.expect_same({0, 1, 2, 3}, counted);
  EXPECT_GE(counted.size(), 4U);
}

TEST(GroupSums, EndByTheDeadlineWhoeverDiesWhenever) {
  for (const bool masked : {false, true})
    for (const bool killed : {false, true})
      for (const Moment moment : {Moment::before_offering, Moment::gathering, Moment::sharing, Moment::adding, Moment::through})
        die_at(moment, masked, killed);
}

TEST(GroupSums, FailByTheDeadlineWithoutAQuorum) {
  Cohort job(of(3, plain_rules(), 3));
  job.add_all();
  const TimeNs began = job.now;
  job.contribute(0, 3);
  job.contribute(1, 3);
  ASSERT_TRUE(job.finish());
  EXPECT_LE(job.now - began, job.options.deadline_ns + 200 * kMillisecondNs);
  EXPECT_EQ(job.ranks[0].status.code(), Code::timeout);
  EXPECT_THAT(job.ranks[1].status.text(), HasSubstr("2 of 3 ranks came within 500 ms, and the quorum is 3; missing: rank 2"));
}

TEST(GroupSums, OneOfTwoThatIsDeadDoesNotHoldTheOther) {
  Cohort job(of(2, plain_rules(), 1));
  job.add_all();
  job.contribute_all();
  job.stopped.insert(1);
  const TimeNs began = job.now;
  ASSERT_TRUE(job.finish());
  EXPECT_LE(job.now - began, job.options.deadline_ns + 200 * kMillisecondNs);
  EXPECT_TRUE(job.ranks[0].status.ok()) << job.ranks[0].status.text();
}

// --- coming back, epochs, small cohorts ------------------------------------------------------------------------------------------

TEST(GroupSums, TakeBackWhoComesAgain) {
  Cohort job(of(4, masked_rules(), 3));
  job.add_all();
  job.contribute_all();
  job.pass(10 * kMillisecondNs);
  job.kill(2);
  ASSERT_TRUE(job.finish());
  job.add(2);
  ASSERT_TRUE(job.run(kSecondNs, [&] { return job.ranks.at(2).machine->connected(); }));
  job.contribute_all(3, 1);
  ASSERT_TRUE(job.finish());
  job.expect_same({0, 1, 2, 3}, {0, 1, 2, 3});
  EXPECT_EQ(job.ranks[2].result.round, 2U);
}

TEST(GroupSums, RefuseContributionsToAnotherEpoch) {
  JobOptions options = of(3, masked_rules(), 2);
  options.epoch = 7;
  Cohort job(options);
  job.add_all();
  job.contribute_all();
  ASSERT_TRUE(job.finish());
  job.expect_same({0, 1, 2}, {0, 1, 2});
  job.aggregator->set_epoch(8, job.now);
  job.ranks[0].machine->set_epoch(8);
  job.ranks[1].machine->set_epoch(8);
  job.contribute_all();
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].status.code(), Code::invalid_usage);
  EXPECT_THAT(job.ranks[2].status.text(), HasSubstr("epoch 7"));
  EXPECT_EQ(job.aggregator->counters().stale, 1U);
  job.expect_same({0, 1}, {0, 1});
  job.ranks[2].machine->set_epoch(8);
  job.contribute(2, 3);
  ASSERT_TRUE(job.finish());
  job.expect_same({0, 1, 2}, {0, 1}, "rank 2 is late for the round that it had the wrong epoch for");
  job.contribute_all();
  ASSERT_TRUE(job.finish());
  job.expect_same({0, 1, 2}, {0, 1, 2});
}

// --- whose sum it is, by somebody who knows ---------------------------------------------------------------------------------------

TEST(GroupSums, AreOfThoseWhoAreConvened) {
  for (const GroupRules& rules : {plain_rules(), masked_rules()}) {
    Cohort job(of(4, rules, 1));
    job.add_all();
    RankSet some;
    job.aggregator->convene(some.set(0).set(2).set(3), 2, 5, job.now);
    for (auto& [rank, one] : job.ranks) one.machine->set_epoch(5);
    const TimeNs began = job.now;
    job.contribute_all();
    ASSERT_TRUE(job.finish());
    EXPECT_LT(job.now - began, job.options.deadline_ns / 2) << "nobody waits for rank 1";
    job.expect_same({0, 2, 3}, {0, 2, 3});
    EXPECT_THAT(job.ranks[1].status.text(), HasSubstr("rank 1 is not among those whose sum this is"));

    std::vector<float> decoded(kCount);
    ASSERT_TRUE(job.aggregator->decode(1, decoded).ok());
    EXPECT_EQ(std::memcmp(decoded.data(), job.ranks[0].out.data(), job.ranks[0].out.size()), 0) << "the aggregator decodes the same bits";
    EXPECT_EQ(job.aggregator->decode(2, decoded).code(), Code::invalid_usage);
    EXPECT_EQ(job.aggregator->decode(1, std::span(decoded).first(3)).code(), Code::invalid_usage);

    some.reset();
    job.aggregator->convene(some.set(1).set(2), 2, 6, job.now);
    for (auto& [rank, one] : job.ranks) one.machine->set_epoch(6);
    job.contribute(2, 3);
    job.contribute(1, 3);
    ASSERT_TRUE(job.run(kSecondNs, [&] { return !job.ranks[1].calling; }));
    EXPECT_THAT(job.ranks[1].status.text(), HasSubstr("epoch 6 of the cohort, and round 1 is of epoch 5"))
        << "it knows of no round but that";
    job.contribute(1, 3);
    ASSERT_TRUE(job.finish());
    job.expect_same({1, 2}, {1, 2});
  }
}

TEST(GroupSums, CanBeGivenUp) {
  Cohort job(of(3, masked_rules(), 3));
  job.add_all();
  job.aggregator->give_up("there is none", job.now);
  EXPECT_TRUE(job.reports.empty());
  job.contribute(0, 3);
  job.pass(10 * kMillisecondNs);
  job.aggregator->give_up("time is over", job.now);
  ASSERT_TRUE(job.finish(100 * kMillisecondNs));
  EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("round 1: time is over"));
  job.contribute_all();
  ASSERT_TRUE(job.finish());
  for (const uint32_t rank : {1U, 2U}) EXPECT_FALSE(job.ranks[rank].status.ok()) << "they come late for round 1";
}

TEST(GroupSums, RefuseALoneMember) {
  auto thc = std::shared_ptr<const codec::Thc>(codec::make_thc(*codec::parse_thc("thc"), 1).value());
  Cohort job(of(3, masked_rules(3)));
  const auto opened =
      Aggregator::open(job.surroundings(), job.key, {.thc = thc, .group = masked_rules(2), .masking = Masking::load().value()},
                       std::vector{testing::address_of(1, 4001)});
  EXPECT_THAT(opened.status().text(), HasSubstr("at least 2"));
  job.add(0);
  job.add(1);
  job.contribute(0, 3);
  job.contribute(1, 3);
  ASSERT_TRUE(job.finish());
  EXPECT_FALSE(job.ranks[0].status.ok()) << "two of a cohort that must have three";
}

TEST(GroupSums, MembersDemandTheRulesThatTheyWereTold) {
  Cohort job(of(3, plain_rules()));
  for (const GroupRules& other : {masked_rules(), plain_rules(2)}) {
    job.add(0, {.group = other});
    job.run(kSecondNs, [&] { return !job.ranks[0].status.ok(); });
    EXPECT_EQ(job.ranks[0].status.code(), Code::invalid_usage);
    EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("but the aggregator has"));
    job.kill(0);
    job.pass(50 * kMillisecondNs);
  }
}

// --- memory ----------------------------------------------------------------------------------------------------------------------

TEST(GroupSums, HoldFewVectorsAtATime) {
  JobOptions options = of(12, masked_rules());
  options.at_once = 2;
  Cohort job(options);
  job.add_all();
  job.contribute_all();
  ASSERT_TRUE(job.finish(20 * kSecondNs));
  std::vector<uint32_t> all;
  for (uint32_t rank = 0; rank < 12; ++rank) all.push_back(rank);
  job.expect_same(all, {all.begin(), all.end()});
}

// --- one member's side -----------------------------------------------------------------------------------------------------------

struct Member {
  GroupSum sum;
  std::vector<float> mean;
};

TEST(GroupMeans, AreWeighted) {
  // Weights that differ much, and are exact in the sum.
  const GroupRules rules = plain_rules(4294967297.0);
  Cohort job(of(3, rules));
  job.add_all();
  const double weights[] = {1, 1e6, 4294967297.0};
  std::vector<GroupSum> members;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    members.emplace_back(GroupOptions{.rules = rules}, nullptr);
    const auto x = testing::random_vector(kCount, rank);
    ASSERT_TRUE(members[rank].begin(x, weights[rank], *job.thc, kSmallChunk, random_bytes).ok());
    Rank& one = job.ranks[rank];
    one.status = one.machine->begin(members[rank].contribution(), job.now);
    one.calling = one.status.ok();
  }
  ASSERT_TRUE(job.finish());
  std::vector<std::vector<float>> means(3, std::vector<float>(kCount));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(weight_of(job.ranks[rank].result.weight_sum), 1 + 1e6 + 4294967297.0);
    ASSERT_TRUE(members[rank].finish(job.ranks[rank].result.weight_sum, true, means[rank]).ok());
    EXPECT_EQ(means[rank], means[0]);
  }
  double wrong = 0, all = 0;
  const auto heavy = testing::random_vector(kCount, 2);
  for (size_t i = 0; i < kCount; ++i) {
    wrong += std::pow(means[0][i] - heavy[i], 2);
    all += std::pow(heavy[i], 2);
  }
  EXPECT_LT(wrong / all, 0.05);
}

TEST(GroupMeans, CarryWhatCameTooLate) {
  const GroupRules rules = plain_rules(10);
  const auto thc = codec::make_thc(*codec::parse_thc("thc"), 3).value();
  GroupSum sum({.rules = rules, .late = LatePolicy::carry, .carry_factor = 0.5}, nullptr);
  const std::vector<float> x(100, 1.0F), y(100, 3.0F);
  std::vector<float> mean(100);
  ASSERT_TRUE(sum.begin(x, 4, *thc, kSmallChunk, random_bytes).ok());
  ASSERT_TRUE(sum.finish(units_of_weight(4), false, mean).ok());
  EXPECT_EQ(sum.carried(), 2);
  ASSERT_TRUE(sum.begin(y, 5, *thc, kSmallChunk, random_bytes).ok());
  EXPECT_EQ(weight_of(sum.contribution().weight), 7);
  EXPECT_FLOAT_EQ(static_cast<const float*>(sum.contribution().in)[0] * 10, 5 * 3 + 2 * 1);
  ASSERT_TRUE(sum.finish(units_of_weight(7), true, mean).ok());
  EXPECT_EQ(sum.carried(), 0);
  EXPECT_FLOAT_EQ(mean[0], 17.0F / 7);
}

TEST(GroupMeans, AreLimitedAndFiniteWhereMasked) {
  const GroupRules rules = masked_rules();
  const auto thc = codec::make_thc(*codec::parse_thc("thc"), 3).value();
  GroupSum sum({.rules = rules}, &*Masking::load().value());
  std::vector<float> x(5000, 1.0F);
  x[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(sum.begin(x, 1, *thc, kSmallChunk, random_bytes).text(), HasSubstr("element 3"));
  for (float& v : x) v = 8;
  ASSERT_TRUE(sum.begin(x, 1, *thc, kSmallChunk, random_bytes).ok());
  EXPECT_NEAR(sum.largest_before_clip(), 8, 1e-6);
  EXPECT_FLOAT_EQ(static_cast<const float*>(sum.contribution().in)[0], kClip);
  EXPECT_FALSE(sum.begin(x, 2, *thc, kSmallChunk, random_bytes).ok()) << "a weight beyond the largest";
}

// --- private k-means -------------------------------------------------------------------------------------------------------------

TEST(PrivateKmeans, StepsAreLloydsAndNobodySeesAMember) {
  constexpr uint32_t kRanks = 12, kDimension = 4;
  std::vector<std::vector<float>> points;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    CounterRng rng(rank, 6);
    points.emplace_back(kDimension);
    for (float& v : points.back()) v = static_cast<float>(0.1 * rng.uniform() + 0.3 * (rank % 3));
  }
  Centres centres{.count = 3, .dimension = kDimension, .values = {}};
  for (uint32_t k = 0; k < 3; ++k) centres.values.insert(centres.values.end(), points[k + 3].begin(), points[k + 3].end());
  Cohort job(of(kRanks, masked_rules(3)));
  job.add_all();
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (auto& [rank, one] : job.ranks) {
      std::vector<uint32_t> words(lloyd_words(centres));
      ASSERT_TRUE(add_to_lloyd(centres, points[rank], kRanks, words).ok());
      one.in.assign(reinterpret_cast<std::byte*>(words.data()), reinterpret_cast<std::byte*>(words.data() + words.size()));
      one.out.assign(one.in.size(), std::byte{});
      one.signature = {.count = words.size(), .type = DataType::uint32, .op = ReduceOp::sum};
      job.begin(rank, one.out.data());
    }
    ASSERT_TRUE(job.finish());
    for (auto& [rank, one] : job.ranks) EXPECT_EQ(one.out, job.ranks[0].out);
    std::vector<uint32_t> sums(lloyd_words(centres));
    std::memcpy(sums.data(), job.ranks[0].out.data(), 4 * sums.size());
    const auto step = finish_lloyd(centres, sums, kRanks);
    ASSERT_TRUE(step.ok()) << step.status().text();
    EXPECT_THAT(step->sizes, ElementsAre(4, 4, 4));
    for (uint32_t k = 0; k < 3; ++k) {
      for (uint32_t i = 0; i < kDimension; ++i) {
        double exact = 0;
        for (uint32_t rank = 0; rank < kRanks; ++rank)
          if (nearest(Metric::l2, centres.points(), points[rank]) == k) exact += points[rank][i] / 4;
        EXPECT_NEAR(step->centres.points()[k][i], exact, 1e-4);
      }
    }
    EXPECT_GT(step->silhouette, 0.6);
    centres = step->centres;
  }
  EXPECT_FALSE(finish_lloyd(centres, std::vector<uint32_t>(3), kRanks).ok());
  EXPECT_FALSE(finish_lloyd(centres, std::vector<uint32_t>(lloyd_words(centres)), kRanks).ok());
}

}  // namespace
}  // namespace isthmus::federated
