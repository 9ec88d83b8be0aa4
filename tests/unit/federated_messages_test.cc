// SPDX-License-Identifier: Apache-2.0
// aggregate_messages.h: every message survives, and nothing shorter, longer or senseless is taken.
#include <gtest/gtest.h>

#include <functional>

#include "federated/aggregate_messages.h"
#include "federated/mask_messages.h"

namespace isthmus::federated {
namespace {

using Bytes = std::vector<std::byte>;

RankSet set_of(std::initializer_list<size_t> ranks) {
  RankSet set;
  for (const size_t rank : ranks) set.set(rank);
  return set;
}

/// What `decode` takes at full length it does not take with bytes missing or added.
void expect_exact(const Bytes& body, const std::function<bool(std::span<const std::byte>)>& decode) {
  EXPECT_TRUE(decode(body));
  for (size_t length = 0; length < body.size(); ++length) EXPECT_FALSE(decode(std::span(body).first(length))) << length;
  Bytes longer = body;
  longer.emplace_back();
  EXPECT_FALSE(decode(longer));
}

TEST(AggregateMessages, JoinAndWelcomeSurvive) {
  const auto join = encode(Join{.codec_hash = 77, .codec = "thc:b=4"});
  EXPECT_EQ(decode_join(*join)->codec_hash, 77U);
  EXPECT_EQ(decode_join(*join)->codec, "thc:b=4");
  EXPECT_EQ(decode_join(*join)->version, kAggregateVersion);
  expect_exact(*join, [](auto body) { return decode_join(body).ok(); });

  const Welcome welcome{.seed = 1,
                        .round = 2,
                        .max_elements = 3,
                        .codec_hash = 4,
                        .chunk_elements = 5,
                        .quorum = 6,
                        .deadline_ns = 7,
                        .limit_ns = 8,
                        .codec = "thc"};
  const auto body = encode(welcome);
  const auto read = decode_welcome(*body);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(std::tie(read->seed, read->round, read->max_elements, read->codec_hash, read->chunk_elements, read->quorum),
            std::tie(welcome.seed, welcome.round, welcome.max_elements, welcome.codec_hash, welcome.chunk_elements, welcome.quorum));
  EXPECT_EQ(std::tie(read->deadline_ns, read->limit_ns, read->codec), std::tie(welcome.deadline_ns, welcome.limit_ns, welcome.codec));
  expect_exact(*body, [](auto bytes) { return decode_welcome(bytes).ok(); });
}

TEST(AggregateMessages, WelcomesSayWhatACohortAgreesOn) {
  for (const bool masked : {false, true}) {
    Welcome welcome{.epoch = 9, .codec = "thc"};
    welcome.group = GroupRules{
        .largest_weight = 500.5, .masked = masked, .masks = {.min_cohort = 4, .degree = 6, .threshold = 5}, .clip = 0.5F, .noise = 0.25};
    const auto body = encode(welcome);
    const auto read = decode_welcome(*body);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->group, welcome.group);
    EXPECT_EQ(read->epoch, 9U);
    expect_exact(*body, [](auto bytes) { return decode_welcome(bytes).ok(); });
  }
  EXPECT_EQ(decode_welcome(*encode(Welcome{.codec = "thc"}))->group, std::nullopt);
}

TEST(AggregateMessages, MembersAndCohortsCarryPayloads) {
  const Bytes payload(7, std::byte{3});
  const Bytes said = encode(CohortMessage{.round = 5, .ranks = set_of({1, 1000}), .payload = payload});
  EXPECT_EQ(decode_cohort_message(said, 1024)->ranks, set_of({1, 1000}));
  EXPECT_EQ(decode_cohort_message(said, 1024)->payload.size(), 7U);
  EXPECT_FALSE(decode_cohort_message(said, 1000).ok());
  EXPECT_FALSE(decode_cohort_message(std::span(said).first(CohortMessage::kHeadBytes - 1), 1024).ok());
  const Bytes answer = encode(MemberMessage{.round = 5, .payload = payload});
  EXPECT_EQ(decode_member_message(answer)->payload.size(), 7U);
  EXPECT_FALSE(decode_member_message(std::span(answer).first(7)).ok());
}

TEST(AggregateMessages, ScalesTravelAsBits) {
  Bytes offer = encode(Offer{.round = 9, .signature = {.count = 3, .type = DataType::float16, .op = ReduceOp::avg}, .scales = {}}, 2);
  write_scale(std::span(offer).subspan(kOfferHeadBytes), 0, 0x7fc00000);
  write_scale(std::span(offer).subspan(kOfferHeadBytes), 1, 0x3f800000);
  const auto read = decode_offer(offer);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->round, 9U);
  EXPECT_EQ(read->signature, (Signature{.count = 3, .type = DataType::float16, .op = ReduceOp::avg}));
  EXPECT_EQ(scale_at(read->scales, 0), 0x7fc00000U);
  EXPECT_EQ(scale_at(read->scales, 1), 0x3f800000U);
  EXPECT_FALSE(decode_offer(std::span(offer).first(kOfferHeadBytes + 3)).ok());
  EXPECT_FALSE(decode_offer(std::span(offer).first(kOfferHeadBytes - 1)).ok());
  offer[24] = std::byte{kDataTypes};
  EXPECT_FALSE(decode_offer(offer).ok());
  offer[24] = std::byte{0};
  offer[25] = std::byte{kReduceOps};
  EXPECT_FALSE(decode_offer(offer).ok());

  const Bytes scales = encode(Scales{.round = 5, .scales = {}}, 3);
  EXPECT_EQ(decode_scales(scales)->scales.size(), 12U);
  EXPECT_FALSE(decode_scales(std::span(scales).first(10)).ok());
  EXPECT_FALSE(decode_scales(std::span(scales).first(7)).ok());
}

TEST(AggregateMessages, OnlyRootsOfSquaresAreScales) {
  for (const uint32_t good : {0U, 1U, 0x3f800000U, 0x7f7fffffU, 0x7fc00000U}) EXPECT_TRUE(is_scale(good));
  for (const uint32_t bad : {0x7f800000U, 0x7f800001U, 0x7fc00001U, 0x80000000U, 0xbf800000U, 0xffffffffU}) EXPECT_FALSE(is_scale(bad));
}

TEST(AggregateMessages, ChunksCarryTheirHeads) {
  const Bytes indices = encode(IndicesHead{.round = 1ULL << 40, .chunk = 7}, 5);
  EXPECT_EQ(decode_indices(indices)->head.round, 1ULL << 40);
  EXPECT_EQ(decode_indices(indices)->head.chunk, 7U);
  EXPECT_EQ(decode_indices(indices)->payload.size(), 5U);
  EXPECT_FALSE(decode_indices(std::span(indices).first(IndicesHead::kBytes - 1)).ok());
  const Bytes sums = encode(SumsHead{.round = 3, .edition = 2, .chunk = 1}, 0);
  EXPECT_EQ(decode_sums(sums)->head.edition, 2U);
  EXPECT_TRUE(decode_sums(sums)->payload.empty());
  EXPECT_FALSE(decode_sums(std::span(sums).first(SumsHead::kBytes - 1)).ok());
}

TEST(AggregateMessages, RanksBeyondTheirNumberAreRefused) {
  const auto body = encode(Roster{.round = 4, .edition = 1, .ranks = set_of({0, 63, 64, 1023})});
  EXPECT_EQ(decode_roster(*body, 1024)->ranks, set_of({0, 63, 64, 1023}));
  EXPECT_FALSE(decode_roster(*body, 1023).ok());
  EXPECT_FALSE(decode_roster(*encode(Roster{.round = 4, .ranks = {}}), 8).ok()) << "a sum of nobody";
  expect_exact(*body, [](auto bytes) { return decode_roster(bytes, 1024).ok(); });
  const auto end = encode(End{.round = 4, .edition = 1, .late = set_of({5})});
  EXPECT_EQ(decode_end(*end, 6)->late, set_of({5}));
  EXPECT_FALSE(decode_end(*end, 5).ok());
  expect_exact(*end, [](auto bytes) { return decode_end(bytes, 6).ok(); });
  EXPECT_EQ(ranks_of(set_of({2, 70})), (std::vector<int32_t>{2, 70}));
}

TEST(AggregateMessages, FailuresAreFailuresWhateverTheySay) {
  const auto body = encode(Failed{.round = 4, .next_round = 6, .why = timeout_error("rank 2 is missing")});
  const auto failed = decode_failed(*body);
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->next_round, 6U);
  EXPECT_EQ(failed->why.code(), Code::timeout);
  EXPECT_EQ(failed->why.text(), "rank 2 is missing");
  Bytes odd = *body;
  for (const uint8_t code : {0, 6, 200}) {  // ok, in_progress, none
    odd[17] = std::byte{code};
    EXPECT_EQ(decode_failed(odd)->why.code(), Code::remote_error) << int{code};
  }
  expect_exact(*body, [](auto bytes) { return decode_failed(bytes).ok(); });
  EXPECT_EQ(decode_refusal(*encode_refusal(invalid_usage("no"))).text(), "no");
  EXPECT_EQ(decode_refusal({}).code(), Code::remote_error);
  const std::string long_text(5000, 'x');
  EXPECT_EQ(decode_refusal(*encode_refusal(invalid_usage(long_text))).text().size(), kMaxAggregateTextBytes);
}

}  // namespace
}  // namespace isthmus::federated
