// SPDX-License-Identifier: Apache-2.0
// aggregator.h and contributor.h together: sums, quorums, ranks that are late, die, come back, or are not who they should be.
#include <gmock/gmock.h>

#include "federated_job.h"

namespace isthmus::federated {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kCount = 2 * kSmallChunk + 1000;

TEST(Aggregator, EverybodyGetsTheKernelsBits) {
  for (const uint32_t ranks : {1U, 2U, 5U}) {
    Job job({.ranks = ranks});
    job.add_all();
    uint64_t round = 0;
    for (const size_t count : {size_t{0}, size_t{1}, size_t{100}, size_t{kSmallChunk}, kCount}) {
      job.call_all(count, count);
      ASSERT_TRUE(job.finish()) << count;
      std::vector<uint32_t> all;
      for (uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
      const auto expected = job.expected(++round, count, count, all, all);
      for (auto& [rank, one] : job.ranks) {
        ASSERT_TRUE(one.status.ok()) << one.status.text();
        EXPECT_EQ(one.out, expected) << ranks << " ranks, " << count;
        EXPECT_EQ(one.result.round, round);
        EXPECT_EQ(one.result.contributors.count(), ranks);
      }
    }
    EXPECT_EQ(job.reports.size(), 5U);
    EXPECT_TRUE(job.late_arrivals.empty());
  }
}

TEST(Aggregator, EveryTypeAndOperatorInPlaceAndApart) {
  Job job;
  job.add_all();
  uint64_t round = 0;
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      for (auto& [rank, one] : job.ranks) job.call(rank, kCount, round, type, op);
      ASSERT_TRUE(job.finish());
      const auto expected = job.expected(round + 1, kCount, round, {0, 1, 2}, {0, 1, 2}, type, op);
      for (auto& [rank, one] : job.ranks) EXPECT_EQ(one.out, expected) << name_of(type) << " " << name_of(op);
      ++round;
    }
  }
  for (auto& [rank, one] : job.ranks) {
    one.in = Job::input(rank, kCount, 77);
    one.signature = {.count = kCount, .type = DataType::float32, .op = ReduceOp::avg};
    job.begin(rank, one.in.data());
  }
  ASSERT_TRUE(job.finish());
  for (auto& [rank, one] : job.ranks) EXPECT_EQ(one.in, job.expected(round + 1, kCount, 77, {0, 1, 2}, {0, 1, 2})) << "in place";
}

TEST(Aggregator, WorksInPiecesOfSomeBytes) {
  Job job({.ranks = 2});
  job.network.piece = 7;
  job.network.capacity = 50;
  job.add(0);
  job.add(1);
  job.call_all(3000);
  ASSERT_TRUE(job.finish(600 * kSecondNs));
  EXPECT_EQ(job.ranks[0].out, job.expected(1, 3000, 0, {0, 1}, {0, 1}));
  EXPECT_EQ(job.ranks[0].out, job.ranks[1].out);
}

TEST(Aggregator, RoundsHaveNewRandomNumbers) {
  Job job;
  job.add_all();
  job.call_all(kCount, 5);
  ASSERT_TRUE(job.finish());
  const auto first = job.ranks[0].out;
  job.call_all(kCount, 5);
  ASSERT_TRUE(job.finish());
  EXPECT_NE(job.ranks[0].out, first);
  EXPECT_EQ(job.ranks[0].out, job.ranks[2].out);
}

// --- quorum and lateness ---------------------------------------------------------------------------------------------------------

TEST(Aggregator, GoesOnWithoutWhoNeverComesAndWaitsOnlyOnce) {
  Job job({.ranks = 4, .quorum = 3});
  for (const uint32_t rank : {0U, 1U, 3U}) job.add(rank);
  job.call_all(kCount);
  EXPECT_FALSE(job.finish(kSecondNs - 20 * kMillisecondNs)) << "before the deadline";
  ASSERT_TRUE(job.finish(kSecondNs));
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 0, {0, 1, 3}, {0, 1, 3}));
  EXPECT_EQ(job.ranks[1].out, job.ranks[3].out);
  EXPECT_THAT(Job::numbers(job.ranks[0].result.contributors), ElementsAre(0, 1, 3));
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish(100 * kMillisecondNs)) << "a rank that is not there is not waited for again";
  job.add(2);
  ASSERT_TRUE(job.run(kSecondNs, [&] { return job.aggregator->connected() == 4; }));
  job.call(0, kCount, 2);
  job.call(1, kCount, 2);
  job.call(3, kCount, 2);
  EXPECT_FALSE(job.finish(kSecondNs / 2)) << "until it has come";
  job.call(2, kCount, 2);
  ASSERT_TRUE(job.finish(kSecondNs / 2));
  EXPECT_EQ(job.ranks[2].out, job.expected(3, kCount, 2, {0, 1, 2, 3}, {0, 1, 2, 3}));
  EXPECT_EQ(job.ranks[2].result.round, 3U);
}

TEST(Aggregator, LateRanksGetTheRoundTheyMissed) {
  Job job({.quorum = 2});
  job.add_all();
  job.call(0, kCount);
  job.call(1, kCount);
  ASSERT_TRUE(job.finish());
  job.call(2, kCount);
  ASSERT_TRUE(job.finish(100 * kMillisecondNs));
  EXPECT_EQ(job.ranks[2].out, job.ranks[0].out);
  EXPECT_EQ(job.ranks[2].out, job.expected(1, kCount, 0, {0, 1}, {0, 1}));
  EXPECT_THAT(Job::numbers(job.ranks[2].result.contributors), ElementsAre(0, 1));
  ASSERT_EQ(job.late_arrivals.size(), 1U);
  EXPECT_EQ(job.late_arrivals[0].rank, 2U);
  EXPECT_EQ(job.late_arrivals[0].round, 1U);
  EXPECT_TRUE(job.late_arrivals[0].served);
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].out, job.expected(2, kCount, 1, {0, 1, 2}, {0, 1, 2})) << "and is with the others again";
  EXPECT_EQ(job.aggregator->counters().late, 1U);
}

TEST(Aggregator, KeepsResultsForAWhile) {
  Job job({.quorum = 1, .kept_rounds = 2});
  job.add_all();
  const auto rounds_of_two = [&](int first, int end) {
    for (int round = first; round < end; ++round) {
      job.call(0, kCount, round);
      job.call(1, kCount, round);
      ASSERT_TRUE(job.finish());
    }
  };
  rounds_of_two(0, 2);
  job.call(2, kCount, 0);
  ASSERT_TRUE(job.finish(100 * kMillisecondNs));
  EXPECT_EQ(job.ranks[2].out, job.expected(1, kCount, 0, {0, 1}, {0, 1})) << "the round before the last";
  rounds_of_two(2, 5);
  job.call(2, kCount, 1);
  ASSERT_TRUE(job.finish(100 * kMillisecondNs));
  EXPECT_EQ(job.ranks[2].status.code(), Code::invalid_usage);
  EXPECT_THAT(job.ranks[2].status.text(),
              HasSubstr("rank 2 came for round 2, but is so late that its result is gone (the aggregator keeps 2); "
                        "the next is round 6"));
  job.call_all(kCount, 9);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].result.round, 6U) << "the next call is with the others";
  EXPECT_EQ(job.ranks[2].out, job.expected(6, kCount, 9, {0, 1, 2}, {0, 1, 2}));
}

TEST(Aggregator, WhoComesWhileOthersAreAddedIsLateForThatRound) {
  Job job({.quorum = 2});
  job.network.capacity = 600;  // so that uploads take some polls
  job.add_all();
  job.call(0, kCount);
  job.call(1, kCount);
  job.pass(kSecondNs + 60 * kMillisecondNs);
  ASSERT_TRUE(job.ranks[0].calling);
  job.call(2, kCount);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].out, job.ranks[0].out);
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 0, {0, 1}, {0, 1}));
  for (const uint32_t rank : {0U, 1U, 2U}) {
    EXPECT_THAT(Job::numbers(job.ranks[rank].result.contributors), ElementsAre(0, 1));
    EXPECT_THAT(Job::numbers(job.ranks[rank].result.late), ElementsAre(2));
  }
  EXPECT_TRUE(job.late_arrivals.empty()) << "it is in the round's report";
  EXPECT_TRUE(job.reports[0].late[2]);
  EXPECT_EQ(job.aggregator->counters().late, 1U);
}

/// Its indices stop half-way; what it gets is what the others get.
TEST(Aggregator, ASlowUploadLeavesTheRosterAndGetsTheResult) {
  Job job({.quorum = 2});
  job.network.capacity = 600;
  job.add_all();
  job.call_all(kCount);
  const uint64_t before = job.aggregator->counters().received_bytes;
  ASSERT_TRUE(job.run(kSecondNs, [&] { return job.aggregator->counters().received_bytes > before + 3 * 4000; }));
  job.stopped = {2};
  EXPECT_FALSE(job.finish(kSecondNs / 2)) << "before the deadline";
  ASSERT_TRUE(job.finish());
  EXPECT_THAT(Job::numbers(job.ranks[0].result.contributors), ElementsAre(0, 1));
  EXPECT_EQ(job.ranks[0].result.editions, 1U);
  job.stopped.clear();
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].out, job.ranks[0].out);
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 0, {0, 1, 2}, {0, 1}));
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].out, job.expected(2, kCount, 1, {0, 1, 2}, {0, 1, 2}));
}

TEST(Aggregator, WithoutAQuorumEverybodyIsToldWhoIsMissing) {
  Job job({.ranks = 4, .quorum = 3});
  for (const uint32_t rank : {0U, 1U, 2U}) job.add(rank);
  job.pass(kSecondNs);
  job.ranks[2].machine->leave();
  job.ranks.erase(2);
  job.call_all(kCount);
  EXPECT_FALSE(job.finish(59 * kSecondNs));
  ASSERT_TRUE(job.finish(2 * kSecondNs));
  for (const uint32_t rank : {0U, 1U}) {
    EXPECT_EQ(job.ranks[rank].status.code(), Code::timeout);
    EXPECT_THAT(job.ranks[rank].status.text(),
                HasSubstr("round 1: 2 of 4 ranks came within 60 s, and the quorum is 3; missing: rank 2 (has "
                          "left), rank 3 (never connected)"));
  }
  ASSERT_EQ(job.reports.size(), 1U);
  EXPECT_FALSE(job.reports[0].failure.ok());
  job.add(2);
  job.add(3);
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].result.round, 2U) << "the next round is untouched";
  EXPECT_EQ(job.ranks[0].out, job.expected(2, kCount, 1, {0, 1, 2, 3}, {0, 1, 2, 3}));
}

TEST(Aggregator, RanksThatDisagreeAreToldBothCalls) {
  Job job({.ranks = 2});
  job.add_all();
  job.call(0, 1000);
  job.pass(50 * kMillisecondNs);
  job.call(1, 1001);
  ASSERT_TRUE(job.finish(kSecondNs));
  for (const uint32_t rank : {0U, 1U}) {
    EXPECT_EQ(job.ranks[rank].status.code(), Code::invalid_usage);
    EXPECT_EQ(job.ranks[rank].status.text(), "round 1: rank 1 wants the avg of 1001 float, but rank 0 the avg of 1000 float");
  }
  job.call_all(1000);
  ASSERT_TRUE(job.finish(kSecondNs));
  EXPECT_TRUE(job.ranks[0].status.ok());
  EXPECT_EQ(job.ranks[0].result.round, 2U);
}

/// Also where the offers were all there before their round began.
TEST(Aggregator, DisagreementIsToldToEverybodyWhateverTheOrder) {
  Job job({.ranks = 4, .quorum = 1});
  job.network.capacity = 600;
  job.add(0);
  job.pass(50 * kMillisecondNs);
  job.call(0, kCount);
  job.pass(kSecondNs + 30 * kMillisecondNs);
  job.network.capacity = 1 << 20;
  for (const uint32_t rank : {1U, 2U, 3U}) {
    job.add(rank);
    job.call(rank, 1000 + rank % 2);
  }
  job.pass(20 * kMillisecondNs);
  ASSERT_TRUE(job.ranks[0].calling) << "the three are early";
  ASSERT_TRUE(job.finish());
  for (const uint32_t rank : {1U, 2U, 3U}) {
    EXPECT_EQ(job.ranks[rank].status.text(), "round 2: rank 2 wants the avg of 1000 float, but rank 1 the avg of 1001 float") << rank;
  }
  for (const uint32_t rank : {1U, 2U, 3U}) job.call(rank, 1000 + rank);  // in one poll
  ASSERT_TRUE(job.finish());
  for (const uint32_t rank : {1U, 2U, 3U}) EXPECT_EQ(job.ranks[rank].status.code(), Code::invalid_usage) << job.ranks[rank].status.text();
  for (const int round : {2, 3}) {
    job.call(0, kCount);
    ASSERT_TRUE(job.finish());
    EXPECT_EQ(job.ranks[0].status.code(), Code::invalid_usage) << "who missed a round that failed is told so: " << round;
  }
  job.call_all(kCount, 2);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].result.round, 4U);
  EXPECT_EQ(job.ranks[0].out, job.expected(4, kCount, 2, {0, 1, 2, 3}, {0, 1, 2, 3}));
}

TEST(Aggregator, WhoIsLateWithAnotherVectorIsToldSo) {
  Job job({.quorum = 1});
  job.add_all();
  job.call(0, 1000);
  ASSERT_TRUE(job.finish());
  job.call(1, 999);
  ASSERT_TRUE(job.finish());
  EXPECT_THAT(job.ranks[1].status.text(),
              HasSubstr("rank 1 came late and wants the avg of 999 float, but the others made the avg of 1000 float"));
  job.call_all(1000);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[1].result.round, 2U);
}

// --- deaths ----------------------------------------------------------------------------------------------------------------------

/// One of three dies after each possible number of polls: the others always end with the sum of those who count, bit for bit.
TEST(Aggregator, ADeathAtAnyMomentLeavesTheOthersAWholeSum) {
  int with = 0, without = 0;
  for (int moment = 0; moment < 60; ++moment) {
    Job job({.quorum = 2});
    job.network.capacity = 600;
    for (uint32_t rank = 0; rank < 3; ++rank) job.add(rank);
    job.call_all(kCount);
    for (int i = 0; i < moment; ++i) {
      job.poll();
      job.now += 5 * kMillisecondNs;
    }
    job.ranks.erase(1);
    ASSERT_TRUE(job.finish(10 * kSecondNs)) << moment;
    const Rank& one = job.ranks[0];
    ASSERT_TRUE(one.status.ok()) << one.status.text();
    EXPECT_EQ(one.out, job.ranks[2].out);
    EXPECT_EQ(one.result.contributors, job.ranks[2].result.contributors);
    const auto added = Job::numbers(one.result.contributors);
    const bool measured = one.result.editions > 0 || added.size() == 3;
    EXPECT_EQ(one.out, job.expected(1, kCount, 0, measured ? std::vector<uint32_t>{0, 1, 2} : added, added)) << moment;
    ++(added.size() == 3 ? with : without);
    job.call_all(kCount, 1);
    ASSERT_TRUE(job.finish(10 * kSecondNs)) << moment;
    EXPECT_EQ(job.ranks[0].result.round, 2U);
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

TEST(Aggregator, ADeadRankMayComeBack) {
  Job job({.quorum = 2});
  job.add_all();
  job.call_all(kCount);
  ASSERT_TRUE(job.finish());
  job.ranks.erase(1);
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_THAT(Job::numbers(job.ranks[0].result.contributors), ElementsAre(0, 2));
  job.add(1);
  job.pass(100 * kMillisecondNs);
  job.call_all(kCount, 2);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[1].result.round, 3U);
  EXPECT_EQ(job.ranks[1].out, job.expected(3, kCount, 2, {0, 1, 2}, {0, 1, 2}));
}

TEST(Aggregator, ABrokenConnectionFailsTheCallAndTheNextOneConnectsAnew) {
  Job job({.ranks = 2, .quorum = 1});
  job.add_all();
  job.call_all(kCount);
  job.poll();
  job.network.pipes[1]->reset = true;
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[1].status.code(), Code::remote_error);
  EXPECT_THAT(job.ranks[1].status.text(), AllOf(HasSubstr("the aggregator at 10.0.0.1:4000"), HasSubstr("connection reset")));
  EXPECT_TRUE(job.ranks[0].status.ok());
  job.network.pipes[0]->reset = true;  // while nobody calls
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish());
  for (const uint32_t rank : {0U, 1U}) {
    EXPECT_TRUE(job.ranks[rank].status.ok()) << job.ranks[rank].status.text();
    EXPECT_EQ(job.ranks[rank].result.round, 2U);
  }
}

TEST(Aggregator, WhoConnectsWhileARoundIsAddedTakesPartInTheNext) {
  Job job({.quorum = 2});
  job.network.capacity = 600;
  job.add(0);
  job.add(1);
  job.pass(50 * kMillisecondNs);
  job.call_all(kCount);
  job.pass(kSecondNs + 30 * kMillisecondNs);
  job.network.capacity = 1 << 20;
  job.add(2);
  job.call(2, kCount, 1);
  ASSERT_TRUE(job.ranks[0].calling);
  ASSERT_TRUE(job.run(5 * kSecondNs, [&] { return job.ranks[0].calls == 1 && job.ranks[1].calls == 1; }));
  EXPECT_TRUE(job.ranks[2].calling);
  EXPECT_EQ(job.ranks[0].result.late.count(), 0U) << "it has missed nothing";
  job.call(0, kCount, 1);
  job.call(1, kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].result.round, 2U);
  EXPECT_EQ(job.ranks[2].out, job.expected(2, kCount, 1, {0, 1, 2}, {0, 1, 2}));
}

}  // namespace
}  // namespace isthmus::federated
