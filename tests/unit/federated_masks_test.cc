// SPDX-License-Identifier: Apache-2.0
// What masked sums stand on, without links: words, shares of secrets, graphs, and members with their keeper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"
#include "federated/mask_keeper.h"
#include "federated/mask_member.h"
#include "federated/words.h"

namespace isthmus::federated {
namespace {

using ::testing::HasSubstr;

const Masking& masking() { return *Masking::load().value(); }

RankSet first(uint32_t count) {
  RankSet set;
  for (uint32_t rank = 0; rank < count; ++rank) set.set(rank);
  return set;
}

/// Random bytes that a seed determines.
bootstrap::RandomSource random_from(uint64_t seed) {
  auto rng = std::make_shared<CounterRng>(seed, 1);
  return [rng](std::span<std::byte> out) {
    for (std::byte& byte : out) byte = static_cast<std::byte>(rng->next_u64());
    return Status();
  };
}

// --- words -----------------------------------------------------------------------------------------------------------------------

TEST(Words, HaveTheLeastWidthThatDoesNotWrap) {
  for (const auto& [n, g, bits] : {std::tuple{10U, 30U, 9U}, {16U, 15U, 8U}, {64U, 30U, 11U}, {128U, 255U, 15U}}) {
    EXPECT_EQ(word_bits(n, g), bits);
    EXPECT_GT(1U << bits, n * g);
    EXPECT_LE(1U << (bits - 1), n * g);
  }
}

TEST(Words, SurvivePacking) {
  CounterRng rng(1, 2);
  for (uint32_t bits = 1; bits <= 32; ++bits) {
    for (const size_t count : {0, 1, 7, 64, 257}) {
      std::vector<uint32_t> words(count), read(count), sums(count, 5);
      for (uint32_t& word : words) word = static_cast<uint32_t>(rng.next_u64()) & word_mask(bits);
      std::vector<std::byte> packed(packed_bytes(count, bits) + 1, std::byte{0xaa});
      pack_words(words, bits, std::span(packed).first(packed.size() - 1));
      EXPECT_EQ(packed.back(), std::byte{0xaa});
      packed.pop_back();
      unpack_words(packed, bits, read);
      EXPECT_EQ(read, words) << bits;
      add_packed(sums, packed, bits);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(sums[i], words[i] + 5);
    }
  }
}

// --- shares ----------------------------------------------------------------------------------------------------------------------

TEST(SecretShares, AnyThresholdManyGiveTheSecretAndFewerDoNot) {
  for (const auto& [threshold, count] : {std::pair{1U, 1U}, {2U, 2U}, {2U, 3U}, {5U, 9U}, {33U, 64U}, {128U, 255U}}) {
    const auto random = random_from(threshold);
    Secret secret;
    ASSERT_TRUE(random(secret.bytes()).ok());
    std::vector<Secret> noise(threshold - 1);
    for (Secret& each : noise) ASSERT_TRUE(random(each.bytes()).ok());
    const std::vector<Share> shares = split_secret(secret, noise, count);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    CounterRng rng(threshold, 3);
    for (int draw = 0; draw < 5; ++draw) {
      for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
      std::vector<Share> some;
      for (uint32_t i = 0; i < threshold; ++i) some.push_back(shares[order[i]]);
      EXPECT_EQ(join_shares(some).bytes(), secret.bytes());
      some.pop_back();
      EXPECT_TRUE(some.empty() || join_shares(some).bytes() != secret.bytes());
    }
  }
}

TEST(SecretShares, FewerThanTheThresholdFitEverySecret) {
  // Of threshold 2: for every other secret there is a line through the one share that is known.
  Secret noise;
  noise.bytes().fill(std::byte{77});
  const Share known = split_secret(Secret(), std::span(&noise, 1), 2)[0];
  for (int byte = 0; byte < 256; ++byte) {
    Secret other, slope;
    other.bytes().fill(static_cast<std::byte>(byte));
    slope.bytes().fill(static_cast<std::byte>(77 ^ byte));
    EXPECT_EQ(split_secret(other, std::span(&slope, 1), 2)[0].value.bytes(), known.value.bytes());
  }
}

// --- graphs ----------------------------------------------------------------------------------------------------------------------

TEST(MaskGraph, IsRegularAndTheSameForEverybody) {
  const MaskRules rules{.degree = 8};
  const auto graph = MaskGraph::make(rules, first(40), 5).value();
  EXPECT_EQ(graph.threshold(), 5U);
  for (uint32_t rank = 0; rank < 40; ++rank) {
    EXPECT_EQ(graph.holders(rank).size(), 9U);
    for (const uint32_t holder : graph.holders(rank)) EXPECT_TRUE(graph.share_number(holder, rank)) << "symmetric";
  }
  EXPECT_NE(MaskGraph::make(rules, first(40), 6)->holders(0), graph.holders(0));
  EXPECT_EQ(MaskGraph::make(rules, first(40), 5)->holders(0), graph.holders(0));
}

TEST(MaskGraph, RefusesWhatWouldUncoverSomebody) {
  EXPECT_THAT(MaskGraph::make({}, first(1), 0).status().text(), HasSubstr("too small"));
  EXPECT_THAT(MaskGraph::make({.min_cohort = 5}, first(4), 0).status().text(), HasSubstr("too small"));
  EXPECT_FALSE(MaskGraph::make({.threshold = 2}, first(4), 0).ok()) << "two halves could be told different things";
  EXPECT_FALSE(MaskGraph::make({.threshold = 5}, first(4), 0).ok());
  EXPECT_TRUE(MaskGraph::make({.threshold = 3}, first(4), 0).ok());
  EXPECT_FALSE(check(MaskRules{.min_cohort = 1}, 4).ok());
  EXPECT_FALSE(check(MaskRules{.degree = 3}, 4).ok());
  EXPECT_FALSE(check(MaskRules{}, 300).ok());
  EXPECT_TRUE(check(MaskRules{.degree = 30}, 300).ok());
}

// --- members and their keeper -----------------------------------------------------------------------------------------------------

/// A masked round whose messages the test carries.
struct Party {
  uint32_t ranks, bits, largest;
  MaskRules rules;
  MaskKeeper keeper;
  std::vector<MaskMember> members;
  std::vector<std::vector<uint32_t>> levels;
  std::vector<uint32_t> sums;
  uint64_t weights = 0;
  static constexpr size_t kCount = 1000;
  static constexpr MaskRound kRound{.round = 3, .epoch = 8};

  Party(uint32_t count, uint32_t g, const MaskRules& chosen, uint32_t narrower = 0)
      : ranks(count), bits(word_bits(count, g) - narrower), largest(g), rules(chosen), keeper(masking(), chosen, 9), sums(kCount) {
    keeper.begin(kRound);
    CounterRng rng(count, g);
    for (uint32_t rank = 0; rank < count; ++rank) {
      members.push_back(MaskMember::make(masking(), random_from(rank), rules, {.rank = rank, .round = kRound, .seed = 9}).value());
      std::vector<std::byte> keys(Advertisement::kBytes);
      write(keys, members[rank].advertisement());
      EXPECT_TRUE(keeper.advertise(rank, keys).ok());
      levels.emplace_back(kCount);
      for (uint32_t& level : levels.back()) level = static_cast<uint32_t>(g - rng.below(g / 4 + 1));
    }
    EXPECT_TRUE(keeper.gather(first(count)).ok());
  }

  /// Those of `sharers` share, and get the others' shares.
  void share(const RankSet& sharers) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto keys = keeper.keys_for(rank);
      const auto said = members[rank].share(decode_cohort_message(keys, ranks).value());
      ASSERT_TRUE(said.ok()) << said.status().text();
      ASSERT_TRUE(!sharers[rank] || keeper.take_shares(rank, *said).ok());
    }
    keeper.close_sharing(sharers);
    for (const int32_t rank : ranks_of(sharers)) {
      const auto inbox = keeper.inbox_for(static_cast<uint32_t>(rank));
      const Status taken = members[static_cast<size_t>(rank)].take_inbox(decode_cohort_message(inbox, ranks).value());
      ASSERT_TRUE(taken.ok()) << taken.text();
    }
  }
  void contribute(uint32_t rank) {
    std::vector<uint32_t> words = levels[rank], read(kCount);
    ASSERT_TRUE(members[rank].mask(0, bits, words).ok());
    std::vector<std::byte> packed(packed_bytes(kCount, bits));
    pack_words(words, bits, packed);
    unpack_words(packed, bits, read);
    size_t same = 0;
    for (size_t i = 0; i < kCount; ++i) same += read[i] == levels[rank][i] ? 1 : 0;
    EXPECT_LT(same, kCount / 4) << "what is sent is not what is summed";
    add_packed(sums, packed, bits);
    weights += *members[rank].mask_weight(rank + 1);
  }
  Status reveal(const RankSet& survivors) {
    ISTHMUS_TRY(keeper.commit(survivors));
    const auto commit = keeper.commit_message();
    for (const int32_t rank : ranks_of(survivors)) {
      if (keeper.complete()) break;
      ISTHMUS_ASSIGN(const auto said, members[static_cast<size_t>(rank)].reveal(decode_cohort_message(commit, ranks).value()));
      ISTHMUS_TRY(keeper.take_reveal(static_cast<uint32_t>(rank), said));
    }
    if (!keeper.complete()) return remote_error(keeper.lacking());
    ISTHMUS_TRY(keeper.uncover());
    ISTHMUS_TRY(keeper.unmask(0, bits, sums, 0, keeper.masks()));
    for (uint32_t& sum : sums) sum &= word_mask(bits);
    ISTHMUS_ASSIGN(weights, keeper.unmask_weight(weights));
    return {};
  }
  [[nodiscard]] std::vector<uint32_t> exact(const RankSet& survivors) const {
    std::vector<uint32_t> sum(kCount);
    for (const int32_t rank : ranks_of(survivors)) add_words(sum, levels[static_cast<size_t>(rank)]);
    return sum;
  }
};

TEST(Masks, GoAwayWithAnyDropOuts) {
  for (const auto& [ranks, g] : {std::pair{2U, 30U}, {3U, 15U}, {10U, 30U}, {64U, 30U}}) {
    const uint32_t threshold = ranks / 2 + 1;
    for (uint32_t lost = 0; lost <= ranks - threshold; lost += std::max(1U, (ranks - threshold) / 3)) {
      Party party(ranks, g, {.min_cohort = 2});
      RankSet survivors = first(ranks);
      for (uint32_t i = 0; i < lost; ++i) survivors.reset((i * 7) % ranks);
      party.share(first(ranks));
      for (const int32_t rank : ranks_of(survivors)) party.contribute(static_cast<uint32_t>(rank));
      const Status done = party.reveal(survivors);
      ASSERT_TRUE(done.ok()) << done.text();
      EXPECT_EQ(party.sums, party.exact(survivors)) << ranks << " ranks, " << lost << " lost";
      uint64_t weights = 0;
      for (const int32_t rank : ranks_of(survivors)) weights += static_cast<uint64_t>(rank) + 1;
      EXPECT_EQ(party.weights, weights);
    }
  }
}

TEST(Masks, GoAwayWhereOnlyNeighboursShareThem) {
  Party party(40, 15, {.degree = 8});
  RankSet sharers = first(40), survivors;
  sharers.reset(4);
  sharers.reset(30);
  survivors = sharers;
  survivors.reset(0);
  survivors.reset(17);
  party.share(sharers);
  for (const int32_t rank : ranks_of(survivors)) party.contribute(static_cast<uint32_t>(rank));
  const Status done = party.reveal(survivors);
  ASSERT_TRUE(done.ok()) << done.text();
  EXPECT_EQ(party.sums, party.exact(survivors));
}

TEST(Masks, OneBitNarrowerIsWrong) {
  for (const auto& [ranks, g] : {std::pair{2U, 30U}, {3U, 15U}, {10U, 30U}, {64U, 30U}}) {
    Party party(ranks, g, {.min_cohort = 2}, 1);
    party.share(first(ranks));
    for (uint32_t rank = 0; rank < ranks; ++rank) party.contribute(rank);
    ASSERT_TRUE(party.reveal(first(ranks)).ok());
    EXPECT_NE(party.sums, party.exact(first(ranks))) << ranks;
  }
}

TEST(Masks, TooFewSurvivorsCannotUncoverAnything) {
  Party party(10, 30, {.min_cohort = 2});
  party.share(first(10));
  for (uint32_t rank = 0; rank < 5; ++rank) party.contribute(rank);
  const Status done = party.reveal(first(5));
  EXPECT_EQ(done.code(), Code::remote_error);
  EXPECT_THAT(done.text(), HasSubstr("6 are needed"));
}

TEST(Masks, SumsDoNotDependOnWhoComesFirst) {
  std::vector<std::vector<uint32_t>> sums;
  for (const uint32_t stride : {1U, 3U, 7U}) {
    Party party(10, 30, {.min_cohort = 2});
    party.share(first(10));
    for (uint32_t i = 0; i < 10; ++i) party.contribute(i * stride % 10);
    ASSERT_TRUE(party.reveal(first(10)).ok());
    sums.push_back(party.sums);
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

TEST(Masks, MembersRevealOneThingOnce) {
  Party party(4, 15, {});
  party.share(first(4));
  RankSet others = first(4);
  others.reset(3);
  const auto said = [&](const RankSet& survivors) {
    const auto body = encode(CohortMessage{.round = 3, .ranks = survivors, .payload = {}});
    return party.members[0].reveal(decode_cohort_message(body, 4).value());
  };
  EXPECT_FALSE(said(first(1)).ok()) << "a sum of itself alone";
  EXPECT_FALSE(said(first(2)).ok()) << "fewer than the least cohort";
  ASSERT_TRUE(said(others).ok());
  EXPECT_FALSE(said(first(4)).ok()) << "rank 3 is there after all: then both its secrets would be known";
  EXPECT_FALSE(said(others).ok());
}

TEST(Masks, WrongSharesAreFoundOut) {
  Party party(4, 15, {});
  party.share(first(4));
  for (uint32_t rank = 0; rank < 4; ++rank) party.contribute(rank);
  ASSERT_TRUE(party.keeper.commit(first(4)).ok());
  const auto commit = party.keeper.commit_message();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    auto body = party.members[rank].reveal(decode_cohort_message(commit, 4).value()).value();
    if (rank == 1) body[20] ^= std::byte{1};
    ASSERT_TRUE(party.keeper.take_reveal(rank, body).ok());
  }
  ASSERT_TRUE(party.keeper.complete());
  EXPECT_THAT(party.keeper.uncover().text(), HasSubstr("somebody sent a wrong one"));
}

TEST(Masks, SealedSharesCannotBeChanged) {
  Party party(3, 15, {});
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto keys = party.keeper.keys_for(rank);
    auto said = party.members[rank].share(decode_cohort_message(keys, 3).value()).value();
    if (rank == 1) said[MemberMessage::kHeadBytes] ^= std::byte{1};
    ASSERT_TRUE(party.keeper.take_shares(rank, said).ok());
  }
  party.keeper.close_sharing(first(3));
  const auto inbox = party.keeper.inbox_for(0);
  EXPECT_THAT(party.members[0].take_inbox(decode_cohort_message(inbox, 3).value()).text(), HasSubstr("shares of rank 1"));
}

}  // namespace
}  // namespace isthmus::federated
