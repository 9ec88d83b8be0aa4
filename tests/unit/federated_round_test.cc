// SPDX-License-Identifier: Apache-2.0
// aggregate_round.h: sums that are bit for bit those of the kernels in whatever order messages come, and who counts when somebody is late,
// lost, or says nonsense.
#include "federated/aggregate_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "federated/contribution.h"
#include "federated_direct.h"

namespace isthmus::federated {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kChunk = kChunkAlignElements;
constexpr uint64_t kSeed = 99;

/// A round and its ranks' vectors, without links.
struct Party {
  uint32_t ranks;
  size_t count;
  std::unique_ptr<const codec::Thc> thc;
  RoundRules rules;
  Round round;
  std::vector<Bytes> inputs, outputs;
  std::vector<uint32_t> sent;
  TimeNs now = 5 * kSecondNs;

  explicit Party(uint32_t rank_count, size_t elements = 3 * kChunk + 100, uint32_t quorum = 0, const char* codec = "thc")
      : ranks(rank_count),
        count(elements),
        thc(codec::make_thc(*codec::parse_thc(codec), rank_count).value()),
        rules{.ranks = rank_count, .quorum = quorum == 0 ? rank_count : quorum, .chunk_elements = kChunk, .max_elements = 1 << 20},
        round(1, *thc, kernels::select_target(), rules, [](uint32_t rank) { return "described " + std::to_string(rank); }),
        sent(rank_count) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(isthmus::testing::as_type(isthmus::testing::random_vector(count, rank), DataType::float32));
    }
    outputs.assign(ranks, Bytes(count * 4));
  }

  Coding coding(uint32_t rank) {
    return {*thc,
            kernels::select_target(),
            {.seed = kSeed, .op = round.number(), .rank = rank, .ranks = ranks},
            kChunk,
            {.in = inputs[rank].data(), .out = outputs[rank].data(), .signature = signature()}};
  }
  [[nodiscard]] Signature signature() const { return {.count = count, .type = DataType::float32, .op = ReduceOp::sum}; }

  void offer(uint32_t rank) {
    Coding mine = coding(rank);
    Bytes scales(4 * mine.grid().groups());
    for (uint32_t chunk = 0; chunk < mine.grid().chunks(); ++chunk) mine.measure(chunk, scales);
    ASSERT_TRUE(round.offer(rank, signature(), scales, now).ok());
  }
  void send(uint32_t rank) {
    Coding mine = coding(rank);
    Bytes indices(mine.grid().index_bytes(sent[rank]));
    mine.encode(sent[rank], scales(), indices);
    ASSERT_TRUE(round.add(rank, sent[rank]++, indices, now).ok());
  }
  void send_all(uint32_t rank) {
    while (round.is_due_from(rank)) send(rank);
  }
  void settle() {
    while (round.poll(now)) continue;
  }
  [[nodiscard]] std::span<const std::byte> scales() const { return std::span(*outcome().scales).subspan(kScalesHeadBytes); }
  [[nodiscard]] const Outcome& outcome() const { return *round.outcome(); }

  Bytes decoded(uint32_t rank) {
    Coding mine = coding(rank);
    const auto summands = static_cast<uint32_t>(outcome().roster.count());
    for (uint32_t chunk = 0; chunk < mine.grid().chunks(); ++chunk) {
      mine.decode(chunk, scales(), std::span(*outcome().sums[chunk]).subspan(SumsHead::kBytes), summands);
    }
    return outputs[rank];
  }
  [[nodiscard]] Bytes expected(const std::vector<uint32_t>& measured, const std::vector<uint32_t>& added) const {
    return isthmus::testing::Direct{.thc = *thc, .seed = kSeed, .round = round.number(), .chunk_elements = kChunk}.result(inputs, measured,
                                                                                                                          added);
  }
};

std::vector<uint32_t> everybody(uint32_t ranks) {
  std::vector<uint32_t> all(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) all[rank] = rank;
  return all;
}

TEST(Round, GivesTheKernelsBits) {
  for (const uint32_t ranks : {1U, 2U, 5U, 9U, 18U}) {
    for (const size_t count : {size_t{1}, size_t{63}, size_t{4096}, size_t{kChunk}, size_t{kChunk + 1}, size_t{3 * kChunk + 100}}) {
      Party party(ranks, count);
      for (uint32_t rank = 0; rank < ranks; ++rank) party.offer(rank);
      party.settle();
      for (uint32_t rank = 0; rank < ranks; ++rank) party.send_all(rank);
      party.settle();
      ASSERT_TRUE(party.outcome().finished) << ranks << " ranks, " << count;
      const Bytes expected = party.expected(everybody(ranks), everybody(ranks));
      for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(party.decoded(rank), expected) << ranks << " ranks, " << count;
    }
  }
}

TEST(Round, EveryCodecAndLayout) {
  for (const char* codec : {"thc:b=2", "thc:b=3,g=42", "thc:b=8", "thc:layout=columns", "thc:group=1024,dither=private", "thc:g=15"}) {
    Party party(3, 2 * kChunk + 5000, 0, codec);
    for (uint32_t rank = 0; rank < 3; ++rank) party.offer(rank);
    party.settle();
    for (uint32_t rank = 0; rank < 3; ++rank) party.send_all(rank);
    party.settle();
    ASSERT_TRUE(party.outcome().finished) << codec;
    EXPECT_EQ(party.decoded(1), party.expected({0, 1, 2}, {0, 1, 2})) << codec;
  }
}

TEST(Round, OfNothingIsOverAtOnce) {
  Party party(2, 0);
  party.offer(1);
  party.offer(0);
  party.settle();
  EXPECT_TRUE(party.outcome().finished);
  EXPECT_EQ(party.outcome().roster.count(), 2U);
}

/// Chunks of different ranks in any order, with anybody lost anywhere: the bits are those of the ranks that count.
TEST(Round, AnyOrderAndAnyLossGiveTheSumOfThoseWhoCount) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CounterRng dice(seed, 0);
    const auto ranks = static_cast<uint32_t>(2 + dice.below(4));
    Party party(ranks, 1 + dice.below(3 * kChunk), 1);
    const double losses = dice.chance(0.5) ? 0.05 : 0;
    std::vector<uint32_t> measured;
    std::vector<bool> lost(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      party.offer(rank);
      if (dice.chance(losses)) {
        lost[rank] = true;
        party.round.lose(rank);
      } else {
        measured.push_back(rank);
      }
    }
    if (measured.empty()) continue;
    party.now += party.rules.deadline_ns;
    ASSERT_TRUE(party.round.poll(party.now));
    while (!party.round.over()) {
      const auto rank = static_cast<uint32_t>(dice.below(ranks));
      if (dice.chance(losses)) {
        lost[rank] = true;
        party.round.lose(rank);
      } else if (!lost[rank] && party.round.is_due_from(rank)) {
        party.send(rank);
      }
      if (dice.chance(0.5)) party.round.poll(party.now);
    }
    if (!party.outcome().failure.ok()) {
      EXPECT_TRUE(party.outcome().roster.none());
      continue;
    }
    std::vector<uint32_t> added;
    for (const int32_t rank : ranks_of(party.outcome().roster)) added.push_back(static_cast<uint32_t>(rank));
    ASSERT_EQ(party.decoded(added.front()), party.expected(measured, added)) << "seed " << seed;
  }
}

TEST(Round, ChunksAreSummedAsTheyComeAndTakenBackWhenSomebodyIsLost) {
  Party party(3, 3 * kChunk, 2);
  for (uint32_t rank = 0; rank < 3; ++rank) party.offer(rank);
  party.settle();
  for (uint32_t rank = 0; rank < 3; ++rank) party.send(rank);
  party.settle();
  EXPECT_EQ(party.outcome().sums.size(), 1U) << "before anybody is through";
  EXPECT_EQ(party.outcome().edition, 0U);
  party.round.lose(1);
  EXPECT_EQ(party.outcome().edition, 1U);
  EXPECT_TRUE(party.outcome().sums.empty());
  party.settle();
  EXPECT_EQ(party.outcome().sums.size(), 1U);
  party.send_all(0);
  party.send_all(2);
  party.settle();
  ASSERT_TRUE(party.outcome().finished);
  EXPECT_EQ(party.decoded(0), party.expected({0, 1, 2}, {0, 2})) << "the lost rank's scales stay in: the others have encoded by them";
}

TEST(Round, WhoIsThroughCountsAlsoWhenItGoes) {
  Party party(3, 2 * kChunk, 2);
  for (uint32_t rank = 0; rank < 3; ++rank) party.offer(rank);
  party.settle();
  party.send_all(1);
  party.round.lose(1);
  party.send_all(0);
  party.send_all(2);
  party.settle();
  EXPECT_EQ(party.outcome().roster.count(), 3U);
  EXPECT_EQ(party.decoded(0), party.expected({0, 1, 2}, {0, 1, 2}));
}

TEST(Round, WaitsForTheDeadlineAndThenGoesOnWithAQuorum) {
  Party party(4, kChunk, 2);
  party.offer(3);
  EXPECT_EQ(party.round.due(), party.now + party.rules.limit_ns);
  party.now += party.rules.deadline_ns;
  party.settle();
  EXPECT_TRUE(party.round.gathering()) << "one is no quorum";
  party.offer(0);
  party.settle();
  EXPECT_FALSE(party.round.gathering()) << "the deadline has passed";
  party.round.come_late(1);
  const TimeNs began = party.now;
  party.now += kSecondNs / 2;
  party.send_all(0);
  EXPECT_EQ(party.round.due(), began + party.rules.limit_ns) << "one is no quorum here either";
  party.now += 5 * kSecondNs;
  party.settle();
  EXPECT_FALSE(party.round.over());
  party.send_all(3);
  party.settle();
  ASSERT_TRUE(party.outcome().finished);
  EXPECT_EQ(party.decoded(0), party.expected({0, 3}, {0, 3}));
  EXPECT_EQ(ranks_of(party.outcome().late), (std::vector<int32_t>{1}));
}

TEST(Round, WhoIsNotExpectedIsNotWaitedFor) {
  Party party(3, kChunk, 2);
  party.round.expect(1, false);
  party.offer(0);
  party.settle();
  EXPECT_TRUE(party.round.gathering());
  party.offer(2);
  party.settle();
  EXPECT_FALSE(party.round.gathering());
}

TEST(Round, SlowRanksLeaveTheRosterAtTheDeadline) {
  Party party(3, 2 * kChunk, 2);
  for (uint32_t rank = 0; rank < 3; ++rank) party.offer(rank);
  party.settle();
  party.send(1);  // and no more
  party.send_all(0);
  const TimeNs first = party.now;
  party.now += kSecondNs / 2;
  party.send_all(2);
  EXPECT_EQ(party.round.due(), first + party.rules.deadline_ns);
  party.settle();
  EXPECT_FALSE(party.round.over());
  party.now = first + party.rules.deadline_ns;
  party.settle();
  ASSERT_TRUE(party.outcome().finished);
  EXPECT_EQ(ranks_of(party.outcome().late), (std::vector<int32_t>{1}));
  EXPECT_EQ(party.decoded(1), party.expected({0, 1, 2}, {0, 2}));
}

TEST(Round, WithoutAQuorumFailsAtTheLimitAndNamesTheMissing) {
  Party party(4, kChunk, 3);
  party.offer(0);
  party.offer(2);
  party.now += party.rules.limit_ns - 1;
  party.settle();
  EXPECT_FALSE(party.round.over());
  ++party.now;
  party.settle();
  EXPECT_EQ(party.outcome().failure.code(), Code::timeout);
  EXPECT_THAT(party.outcome().failure.text(), AllOf(HasSubstr("round 1: 2 of 4 ranks came within 60 s, and the quorum is 3"),
                                                    HasSubstr("missing: rank 1 (described 1), rank 3 (described 3)")));
  party.round.next();
  EXPECT_TRUE(party.round.gathering());
  EXPECT_EQ(party.round.number(), 2U);
}

TEST(Round, FailsAtOnceWhenTooFewAreLeft) {
  Party party(3, kChunk, 3);
  for (uint32_t rank = 0; rank < 3; ++rank) party.offer(rank);
  party.settle();
  party.round.lose(1);
  EXPECT_EQ(party.outcome().failure.code(), Code::remote_error);
  EXPECT_THAT(party.outcome().failure.text(),
              HasSubstr("2 of 3 ranks are left to be added, and the quorum is 3; missing: rank 1 (described 1)"));
  Party slow(3, kChunk, 3);
  for (uint32_t rank = 0; rank < 3; ++rank) slow.offer(rank);
  slow.settle();
  slow.send_all(0);
  slow.send_all(1);
  slow.now += slow.rules.limit_ns;
  slow.settle();
  EXPECT_EQ(slow.outcome().failure.code(), Code::timeout);
}

TEST(Round, RanksThatDisagreeFailIt) {
  Party party(3, kChunk, 1);
  party.offer(1);
  const Bytes scales(4 * AggregateGrid(*party.thc, kChunk, kChunk).groups());
  ASSERT_TRUE(party.round.offer(2, {.count = kChunk, .type = DataType::float16, .op = ReduceOp::avg}, scales, party.now).ok());
  EXPECT_EQ(party.outcome().failure.code(), Code::invalid_usage);
  EXPECT_EQ(party.outcome().failure.text(), "round 1: rank 2 wants the avg of 8192 half, but rank 1 the sum of 8192 float");
}

TEST(Round, WithdrawnOffersLeaveNoTrace) {
  Party party(2, kChunk, 1);
  const Bytes scales(4 * AggregateGrid(*party.thc, 100, kChunk).groups());
  ASSERT_TRUE(party.round.offer(0, {.count = 100}, scales, party.now).ok());
  party.round.lose(0);
  EXPECT_EQ(party.round.began_at(), kNever);
  party.now += 100 * kSecondNs;
  party.settle();
  party.offer(1);
  party.offer(0);
  party.settle();
  EXPECT_FALSE(party.round.gathering());
  party.send_all(0);
  party.send_all(1);
  party.settle();
  EXPECT_EQ(party.decoded(0), party.expected({0, 1}, {0, 1}));
}

TEST(Round, RefusesWhatDoesNotFit) {
  Party party(2, kChunk + 1);
  const size_t groups = AggregateGrid(*party.thc, party.count, kChunk).groups();
  EXPECT_FALSE(party.round.offer(0, party.signature(), Bytes(4 * groups - 4), party.now).ok());
  EXPECT_FALSE(party.round.offer(0, party.signature(), Bytes(4 * groups + 4), party.now).ok());
  EXPECT_FALSE(party.round.offer(0, {.count = (1 << 20) + 1}, {}, party.now).ok());
  EXPECT_FALSE(party.round.offer(0, {.count = UINT64_MAX}, {}, party.now).ok());
  Bytes negative(4 * groups);
  write_scale(negative, 1, 0xbf800000);
  EXPECT_THAT(party.round.offer(0, party.signature(), negative, party.now).text(), HasSubstr("its scale 1 is none: bf800000"));
  party.offer(0);
  party.offer(1);
  party.settle();
  const Bytes chunk(AggregateGrid(*party.thc, party.count, kChunk).index_bytes(0));
  EXPECT_FALSE(party.round.add(0, 1, chunk, party.now).ok()) << "out of order";
  EXPECT_FALSE(party.round.add(0, 0, std::span(chunk).first(chunk.size() - 1), party.now).ok());
  EXPECT_TRUE(party.round.add(0, 0, chunk, party.now).ok());
  EXPECT_FALSE(party.round.add(0, 1, chunk, party.now).ok()) << "the last chunk is short";
}

TEST(Round, WhatIsNotANumberOnOneRankIsNoneForAll) {
  Party party(3, 2 * kChunk);
  const uint32_t bad = 0x7f800000;
  std::memcpy(party.inputs[1].data() + 4 * 5000, &bad, 4);
  for (uint32_t rank = 0; rank < 3; ++rank) party.offer(rank);
  party.settle();
  for (uint32_t rank = 0; rank < 3; ++rank) party.send_all(rank);
  party.settle();
  const Bytes result = party.decoded(0);
  for (size_t i = 0; i < party.count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, result.data() + 4 * i, 4);
    ASSERT_EQ(bits == 0x7fc00000, i >= 4096 && i < 8192) << i;
  }
}

}  // namespace
}  // namespace isthmus::federated
