// SPDX-License-Identifier: Apache-2.0
// aggregator.h and contributor.h against those who should not be there, do not fit, say nonsense, take nothing or have gone; and how it
// ends.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "federated_job.h"

namespace isthmus::federated {
namespace {

using isthmus::testing::address_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kCount = 2 * kSmallChunk + 1000;

/// A proven connection of a made-up process, for saying strange things.
bootstrap::Link intrude(Job& job, int32_t rank) {
  const wire::Hello hello{.communicator = aggregator_number(),
                          .rank = rank,
                          .ranks = static_cast<int32_t>(job.options.ranks),
                          .purpose = wire::Purpose::aggregate,
                          .process = {9, 9}};
  auto handshake = wire::Handshake::initiate(job.crypto, hello, job.key, {std::byte{7}});
  auto stream = job.network.connect(address_of(1, 4000), {}).value();
  while (true) {
    auto proven = bootstrap::advance(handshake, *stream);
    EXPECT_TRUE(proven.ok()) << proven.status().text();
    if (!proven.ok() || *proven) break;
    job.poll();
  }
  return {std::move(stream), 1 << 20};
}

void say(bootstrap::Link& link, AggregateType type, const std::vector<std::byte>& body) {
  link.send(static_cast<uint8_t>(type), body);
  EXPECT_TRUE(link.flush().ok());
}

/// The type of the next message, 0 if there is none.
uint8_t hear(bootstrap::Link& link) {
  const auto message = link.receive();
  return message.ok() && message->has_value() ? (*message)->type : uint8_t{0};
}

TEST(AggregatorDoor, StrangersDisturbNobody) {
  Job job;
  job.add_all();
  std::vector<std::unique_ptr<transport::Stream>> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(job.network.connect(address_of(1, 4000), {}).value());
    const std::string words = i % 2 == 0 ? "GET / HTTP/1.1\r\nHost: here\r\n\r\n" + std::string(60, ' ') : "";
    EXPECT_TRUE(strangers.back()->write(as_bytes(words)).ok());
  }
  job.call_all(kCount);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 0, {0, 1, 2}, {0, 1, 2}));
  job.pass(5 * kSecondNs);
  const auto counters = job.aggregator->counters();
  EXPECT_EQ(counters.refused, 100U);
  EXPECT_EQ(counters.timed_out + counters.evicted, 100U);
  EXPECT_EQ(counters.lost, 0U);
}

TEST(AggregatorDoor, AWrongSecretIsRefused) {
  Job job;
  const Key right = job.key;
  job.key[0] = std::byte{1};
  job.add(0, {.reach_timeout_ns = 2 * kSecondNs});
  job.key = right;
  job.pass(3 * kSecondNs);
  EXPECT_EQ(job.ranks[0].status.code(), Code::timeout);
  EXPECT_THAT(job.ranks[0].status.text(), AllOf(HasSubstr("rank 0 could not reach the aggregator within 2 s"), HasSubstr("secret")));
  EXPECT_GT(job.aggregator->counters().refused, 0U);
}

TEST(AggregatorDoor, RanksAreTakenOnce) {
  Job job;
  job.add_all();
  auto twin = job.contributor(1).value();
  twin->connect(job.now);
  Status refused;
  job.run(kSecondNs, [&] {
    const auto over = twin->poll(job.now);
    if (!over.ok()) refused = over.status();
    return !over.ok();
  });
  EXPECT_EQ(refused.code(), Code::invalid_usage);
  EXPECT_THAT(refused.text(), HasSubstr("rank 1 is taken by another process, at 10.0.0.99"));
  EXPECT_EQ(job.aggregator->counters().duplicates, 1U);
  job.call_all(kCount);
  ASSERT_TRUE(job.finish());
  EXPECT_TRUE(job.ranks[1].status.ok());
}

TEST(AggregatorDoor, WhoDoesNotFitIsToldWhy) {
  Job job;
  job.add(0, {.ranks = 4});
  job.pass(100 * kMillisecondNs);
  EXPECT_EQ(job.ranks[0].status.code(), Code::invalid_usage);
  EXPECT_EQ(job.ranks[0].status.text(), "rank 0 was told that there are 4 ranks, but the aggregator serves 3");
  job.add(0, {.thc = codec::make_thc(*codec::parse_thc("thc:b=8"), 3).value()});
  job.pass(100 * kMillisecondNs);
  EXPECT_EQ(job.ranks[0].status.code(), Code::invalid_usage);
  EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("rank 0 would encode with 'thc:b=8,"));
  EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("but the aggregator adds 'thc:g=85,p=1/512'"));
  EXPECT_EQ(job.aggregator->counters().misfits, 2U);
  {
    bootstrap::Link old = intrude(job, 2);
    say(old, AggregateType::join, *encode(Join{.version = 0}));
    job.poll();
    EXPECT_EQ(hear(old), static_cast<uint8_t>(AggregateType::refusal));
  }
  EXPECT_EQ(job.aggregator->counters().misfits, 3U);
  job.add(0, {.thc = job.thc});
  job.pass(100 * kMillisecondNs);
  EXPECT_EQ(job.aggregator->connected(), 1U);
}

TEST(AggregatorDoor, TooLargeVectorsAreRefusedBeforeAnythingIsSent) {
  Job job({.ranks = 2, .memory_bytes = 200'000});
  job.add_all();
  const uint64_t most = job.aggregator->max_elements();
  EXPECT_GE(most, kSmallChunk);
  EXPECT_EQ(job.ranks[0].machine->terms().max_elements, most);
  job.call(0, most + 1);
  EXPECT_EQ(job.ranks[0].status.code(), Code::invalid_argument);
  EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("this aggregator has memory for"));
  job.call_all(most);
  ASSERT_TRUE(job.finish());
  EXPECT_TRUE(job.ranks[0].status.ok()) << job.ranks[0].status.text();

  Rank& newcomer = job.add(1);  // it learns the limit with the call under way; its predecessor goes
  job.call(1, most + 1);
  ASSERT_TRUE(job.run(kSecondNs, [&] { return !newcomer.calling; }));
  EXPECT_EQ(newcomer.status.code(), Code::invalid_argument);
}

TEST(AggregatorDoor, ArgumentsAreChecked) {
  Job job({.ranks = 2});
  const auto open = [&](AggregatorOptions options) {
    return Aggregator::open(job.surroundings(), job.key, std::move(options), std::vector{address_of(1, 4001)}).status().text();
  };
  AggregatorOptions options = job.aggregator_options();
  options.quorum = 3;
  EXPECT_THAT(open(options), HasSubstr("a quorum of 3 is more than the 2 ranks"));
  options = job.aggregator_options();
  options.deadline_ns = options.limit_ns + 1;
  EXPECT_THAT(open(options), HasSubstr("is later than the limit"));
  options = job.aggregator_options();
  options.chunk_elements = 1000;
  EXPECT_THAT(open(options), HasSubstr("a multiple of 8192"));
  options = job.aggregator_options();
  options.memory_bytes = 1000;
  EXPECT_THAT(open(options), HasSubstr("not enough for one chunk"));
  options = job.aggregator_options();
  options.kept_rounds = 0;
  EXPECT_THAT(open(options), HasSubstr("at least one round"));
  options.thc = codec::make_thc(*codec::parse_thc("thc:ef=on"), 2).value();
  EXPECT_THAT(open(options), HasSubstr("ef=on is not for it"));
  options.thc = codec::make_thc(*codec::parse_thc("thc:b=2"), 1025).value();
  EXPECT_THAT(open(options), HasSubstr("at most 1024"));
  EXPECT_FALSE(Aggregator::open(job.surroundings(), job.key, job.aggregator_options(), std::vector{address_of(1, 4000)}).ok())
      << "the port is taken";

  EXPECT_EQ(job.contributor(2).status().code(), Code::invalid_argument);
  job.add_all();
  Rank& one = job.ranks[0];
  std::vector<float> data(100);
  const auto begin = [&](const Contribution& contribution) { return one.machine->begin(contribution, job.now).code(); };
  EXPECT_EQ(begin({.in = data.data(), .out = data.data(), .signature = {.count = 100, .type = DataType::int32}}), Code::invalid_argument);
  EXPECT_EQ(begin({.in = data.data(), .out = data.data(), .signature = {.count = 100, .op = ReduceOp::max}}), Code::invalid_argument);
  EXPECT_EQ(begin({.in = nullptr, .out = data.data(), .signature = {.count = 1}}), Code::invalid_argument);
  EXPECT_EQ(begin({.in = data.data(), .out = data.data() + 1, .signature = {.count = 99}}), Code::invalid_argument);
  EXPECT_EQ(begin({.in = data.data(), .out = data.data(), .signature = {.count = UINT64_MAX / 2}}), Code::invalid_argument);
  EXPECT_EQ(begin({.in = data.data(), .out = data.data(), .signature = {.count = 100}}), Code::ok);
  EXPECT_EQ(begin({.in = data.data(), .out = data.data(), .signature = {.count = 100}}), Code::invalid_usage) << "one at a time";
}

// --- nonsense --------------------------------------------------------------------------------------------------------------------

TEST(AggregatorDoor, NonsenseFromAProvenRankCostsOnlyItsPlace) {
  Job job({.quorum = 2});
  job.add(0);
  job.add(1);
  job.pass(50 * kMillisecondNs);
  const AggregateGrid grid(*job.thc, kCount, kSmallChunk);
  const Signature signature{.count = kCount, .op = ReduceOp::avg};
  const auto offer = [&](uint64_t round) { return encode(Offer{.round = round, .signature = signature, .scales = {}}, grid.groups()); };
  const std::vector<std::byte> join = *encode(Join{}), junk(100, std::byte{0x5a});
  using Words = std::vector<std::pair<AggregateType, std::vector<std::byte>>>;
  uint64_t malformed = 0;
  for (const Words& words :
       {Words{{AggregateType::offer, offer(1)}}, Words{{AggregateType::join, junk}},
        Words{{AggregateType::join, join}, {AggregateType::join, join}}, Words{{AggregateType::join, join}, {AggregateType::welcome, junk}},
        Words{{AggregateType::join, join}, {static_cast<AggregateType>(1), junk}},
        Words{{AggregateType::join, join}, {AggregateType::offer, offer(0)}},
        Words{{AggregateType::join, join}, {AggregateType::offer, offer(2)}},
        Words{{AggregateType::join, join}, {AggregateType::offer, junk}},
        Words{{AggregateType::join, join}, {AggregateType::offer, offer(1)}, {AggregateType::offer, offer(1)}},
        Words{{AggregateType::join, join}, {AggregateType::indices, encode(IndicesHead{.round = 2}, 0)}},
        Words{{AggregateType::join, join}, {AggregateType::indices, {}}}}) {
    bootstrap::Link link = intrude(job, 2);
    for (const auto& [type, body] : words) say(link, type, body);
    job.pass(20 * kMillisecondNs);
    EXPECT_EQ(job.aggregator->counters().malformed, ++malformed);
    EXPECT_EQ(job.aggregator->connected(), 2U);
  }
  EXPECT_TRUE(job.reports.empty());
  job.add(2);
  job.call_all(kCount);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 0, {0, 1, 2}, {0, 1, 2}));
}

TEST(AggregatorDoor, NonsenseAmongTheIndicesCostsTheRankItsContribution) {
  Job job({.quorum = 2});
  job.add(0);
  job.add(1);
  job.pass(50 * kMillisecondNs);
  const AggregateGrid grid(*job.thc, kCount, kSmallChunk);
  bootstrap::Link link = intrude(job, 2);
  say(link, AggregateType::join, *encode(Join{}));
  say(link, AggregateType::offer,
      encode(Offer{.round = 1, .signature = {.count = kCount, .op = ReduceOp::avg}, .scales = {}}, grid.groups()));
  job.call_all(kCount);
  job.poll();
  EXPECT_EQ(hear(link), static_cast<uint8_t>(AggregateType::welcome));
  ASSERT_TRUE(job.run(kSecondNs, [&] { return hear(link) == static_cast<uint8_t>(AggregateType::scales); }));
  say(link, AggregateType::indices, encode(IndicesHead{.round = 1, .chunk = 0}, grid.index_bytes(0)));
  say(link, AggregateType::indices, encode(IndicesHead{.round = 1, .chunk = 2}, grid.index_bytes(2)));
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.aggregator->counters().malformed, 1U);
  EXPECT_THAT(Job::numbers(job.ranks[0].result.contributors), ElementsAre(0, 1));
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 0, {0, 1}, {0, 1})) << "its scales were zeros, and its first chunk was taken back";
}

TEST(AggregatorDoor, WhoProvesItselfAndSaysNothingIsDropped) {
  Job job;
  bootstrap::Link link = intrude(job, 2);
  job.pass(9 * kSecondNs);
  EXPECT_EQ(job.aggregator->counters().lost, 0U);
  job.pass(2 * kSecondNs);
  EXPECT_EQ(job.aggregator->counters().lost, 1U);
  EXPECT_FALSE(link.receive().ok());
}

/// A contributor against an aggregator that answers nonsense.
TEST(AggregatorDoor, ContributorsDistrustWhatTheyAreTold) {
  for (const auto& [type, body] : std::vector<std::pair<AggregateType, std::vector<std::byte>>>{
           {AggregateType::welcome, {}},
           {AggregateType::welcome, *encode(Welcome{.round = 1, .max_elements = 10, .chunk_elements = 1000, .codec = "thc"})},
           {AggregateType::welcome, *encode(Welcome{.round = 0, .max_elements = 10, .chunk_elements = kSmallChunk, .codec = "thc"})},
           {AggregateType::welcome, *encode(Welcome{.round = 1, .max_elements = 10, .chunk_elements = kSmallChunk, .codec = "bf16"})},
           {AggregateType::welcome, *encode(Welcome{.round = 1, .max_elements = 10, .chunk_elements = kSmallChunk, .codec = "thc"})},
           {AggregateType::scales, encode(Scales{.round = 1, .scales = {}}, 1)},
           {AggregateType::end, {}},
           {AggregateType::join, {}}}) {
    Job job;
    job.aggregator.reset();
    auto listener = job.network.listen(address_of(1, 4000)).value();
    Rank& one = job.add(0);
    job.poll();
    auto stream = listener->accept().value();
    ASSERT_NE(stream, nullptr);
    auto handshake = wire::Handshake::respond(
        job.crypto, {.rank = -1}, [&](const wire::Hello&) { return wire::Handshake::KeyAnswer{.key = &job.key}; }, {std::byte{5}});
    for (int i = 0; i < 10 && !handshake.done(); ++i) {
      ASSERT_TRUE(bootstrap::advance(handshake, *stream).ok());
      job.poll();
    }
    bootstrap::Link link(std::move(stream), 1 << 20);
    say(link, type, body);
    job.poll();
    EXPECT_FALSE(one.status.ok()) << static_cast<int>(type);
    EXPECT_THAT(one.status.text(), HasSubstr("the aggregator at 10.0.0.1:4000"));
  }
}

// --- silence ---------------------------------------------------------------------------------------------------------------------

TEST(AggregatorDoor, RanksMayComputeForHours) {
  Job job({.ranks = 2});
  job.add_all();
  job.stopped = {0, 1};
  for (const TimeNs end = job.now + 3600 * kSecondNs; job.now < end; job.now += kSecondNs) job.poll();
  EXPECT_EQ(job.aggregator->connected(), 2U);
  EXPECT_GT(job.network.pipes[0]->bytes[1].size(), 600 * bootstrap::Link::kHeaderBytes) << "heartbeats keep the way open";
  EXPECT_LT(job.network.pipes[0]->bytes[1].size(), 800 * bootstrap::Link::kHeaderBytes);
  job.stopped.clear();
  job.call_all(kCount);
  ASSERT_TRUE(job.finish());
  EXPECT_TRUE(job.ranks[0].status.ok()) << job.ranks[0].status.text();
}

TEST(AggregatorDoor, WhoTakesNothingIsLost) {
  Job job({.quorum = 1});
  job.add_all();
  job.network.pipes[2]->capacity = 0;
  job.stopped = {2};
  job.pass(30 * kSecondNs);
  EXPECT_EQ(job.aggregator->connected(), 3U);
  job.pass(40 * kSecondNs);
  EXPECT_EQ(job.aggregator->connected(), 2U);
  EXPECT_EQ(job.aggregator->counters().lost, 1U);
}

TEST(AggregatorDoor, ResultsAreNotKeptForWhoTakesThemTooSlowly) {
  Job job({.ranks = 2, .quorum = 1, .kept_rounds = 1, .queue_bytes = 100});
  job.add_all();
  job.call_all(kCount);
  ASSERT_TRUE(job.finish());
  job.network.pipes[1]->capacity = 600;
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.run(kSecondNs, [&] { return !job.ranks[0].calling; }));
  ASSERT_TRUE(job.ranks[1].calling);
  job.stopped = {1};
  for (int round = 2; round < 4; ++round) {
    job.call(0, kCount, round);
    ASSERT_TRUE(job.finish());
  }
  job.stopped.clear();
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[1].status.code(), Code::timeout);
  EXPECT_EQ(job.ranks[1].status.text(), "rank 1 is too slow: the result of round 2 is not kept any longer");
  job.network.pipes[1]->capacity = 1 << 20;
  job.call(1, kCount, 3);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[1].result.round, 4U) << "the next that was there: " << job.ranks[1].status.text();
  EXPECT_EQ(job.ranks[0].out, job.ranks[1].out);
}

TEST(AggregatorDoor, ASilentAggregatorIsGivenUp) {
  Job job({.ranks = 2});
  job.add(0);
  job.pass(100 * kMillisecondNs);
  job.call(0, kCount);
  job.pass(100 * kMillisecondNs);
  auto frozen = std::move(job.aggregator);
  EXPECT_FALSE(job.finish(59 * kSecondNs));
  ASSERT_TRUE(job.finish(2 * kSecondNs));
  EXPECT_EQ(job.ranks[0].status.code(), Code::timeout);
  EXPECT_THAT(job.ranks[0].status.text(), HasSubstr("has said nothing for 60 s"));
}

TEST(AggregatorDoor, CallsMayHaveALimitOfTheirOwn) {
  Job job({.ranks = 2});
  job.add(0, {.call_timeout_ns = 3 * kSecondNs});
  job.pass(100 * kMillisecondNs);
  job.call(0, kCount);
  EXPECT_FALSE(job.finish(2900 * kMillisecondNs));
  ASSERT_TRUE(job.finish(200 * kMillisecondNs));
  EXPECT_EQ(job.ranks[0].status.text(), "the aggregator at 10.0.0.1:4000: rank 0's sum took longer than 3 s");
  job.add(1);
  job.call_all(kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].result.round, 1U) << "its offer was withdrawn with it";
  EXPECT_EQ(job.ranks[0].out, job.expected(1, kCount, 1, {0, 1}, {0, 1}));
}

// --- the end ---------------------------------------------------------------------------------------------------------------------

TEST(AggregatorDoor, StoppingFailsTheRoundUnderWayOnItsRanks) {
  Job job;
  job.add_all();
  job.call(0, kCount);
  job.pass(50 * kMillisecondNs);
  job.aggregator->stop("interrupted", job.now);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].status.code(), Code::remote_error);
  EXPECT_EQ(job.ranks[0].status.text(), "round 1: the aggregator was stopped: interrupted");
  ASSERT_EQ(job.reports.size(), 1U);
  EXPECT_TRUE(job.run(3 * kSecondNs, [&] { return job.ended; }));
}

TEST(AggregatorDoor, StoppingWithoutRanksEndsAtOnce) {
  Job job;
  job.aggregator->stop("interrupted", job.now);
  job.poll();
  EXPECT_TRUE(job.ended);
}

TEST(AggregatorDoor, EndsAfterItsLastRoundWhenAllHaveIt) {
  Job job({.quorum = 2, .rounds = 2});
  job.add_all();
  for (int round = 0; round < 2; ++round) {
    for (const uint32_t rank : {0U, 1U}) job.call(rank, kCount, round);
    ASSERT_TRUE(job.finish());
  }
  for (const uint32_t rank : {0U, 1U}) job.ranks[rank].machine->leave();
  job.pass(10 * kSecondNs);
  EXPECT_FALSE(job.ended) << "rank 2 is still on its way";
  job.call(2, kCount, 0);
  ASSERT_TRUE(job.finish());
  job.call(2, kCount, 1);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].out, job.ranks[0].out);
  EXPECT_EQ(job.ranks[2].result.round, 2U);
  EXPECT_FALSE(job.ranks[2].machine->ended());
  job.call(2, kCount, 2);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[2].status.text(), "the aggregator has ended after its 2 rounds");
  EXPECT_TRUE(job.ranks[2].machine->ended());
  job.ranks.erase(2);
  EXPECT_TRUE(job.run(kSecondNs, [&] { return job.ended; }));
}

TEST(AggregatorDoor, DoesNotLingerForever) {
  Job job({.quorum = 2, .rounds = 1});
  job.add_all();
  for (const uint32_t rank : {0U, 1U}) job.call(rank, kCount);
  ASSERT_TRUE(job.finish());
  EXPECT_FALSE(job.run(55 * kSecondNs, [&] { return job.ended; }));
  EXPECT_TRUE(job.run(10 * kSecondNs, [&] { return job.ended; }));
}

TEST(AggregatorDoor, WithoutAuthentication) {
  Job job({.ranks = 2, .crypto = &Crypto::none()});
  job.add_all();
  job.call_all(1000);
  ASSERT_TRUE(job.finish());
  EXPECT_EQ(job.ranks[0].out, job.expected(1, 1000, 0, {0, 1}, {0, 1}));
}

}  // namespace
}  // namespace isthmus::federated
