// SPDX-License-Identifier: Apache-2.0
// rendezvous.h: jobs that form, jobs that do not, and strangers at the door; in virtual time over a network in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "bootstrap/rendezvous_messages.h"
#include "bootstrap_rendezvous_job.h"

namespace isthmus::bootstrap {
namespace {

using testing::address_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void say(transport::Stream& stream, std::string_view text) { EXPECT_TRUE(stream.write(as_bytes(text)).ok()); }

TEST(Rendezvous, EverybodyGetsEverybodysBlob) {
  for (const int32_t ranks : {1, 2, 5, 33}) {
    Job job;
    job.open_root(0);
    for (int32_t rank = ranks - 1; rank >= 0; --rank) job.add(rank, ranks);
    ASSERT_TRUE(job.form()) << ranks;
    for (const auto& member : job.members) {
      ASSERT_EQ(member->table().blobs.size(), static_cast<size_t>(ranks));
      for (int32_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(member->table().blobs[static_cast<size_t>(rank)], blob_of(rank));
      EXPECT_EQ(member->table().session, job.members[0]->table().session);
      EXPECT_EQ(member->table().hub_rank, 0);
    }
    EXPECT_NE(job.members[0]->table().session, Session{});
    EXPECT_EQ(job.root->counters().refused, 0u);
  }
}

TEST(Rendezvous, WorksInPiecesOfOneByte) {
  Job job;
  job.network.piece = 1;
  job.network.capacity = 3;
  job.open_root();
  for (int32_t rank = 0; rank < 3; ++rank) job.add(rank, 3);
  // The root is done once the table is queued; its links carry the rest.
  std::vector<std::optional<Link>> links;
  EXPECT_TRUE(job.run(60 * kSecondNs, [&] {
    if (job.root_done && links.empty()) links = job.root->take_links();
    for (auto& link : links) EXPECT_TRUE(link->flush().ok());
    return job.all_done();
  }));
  EXPECT_EQ(job.members[2]->table().blobs[1], blob_of(1));
}

TEST(Rendezvous, LinksStayOpenAndAreInRankOrder) {
  Job job;
  job.open_root();
  for (int32_t rank = 2; rank >= 0; --rank) job.add(rank, 3);
  ASSERT_TRUE(job.form());
  auto links = job.root->take_links();
  ASSERT_EQ(links.size(), 3u);
  for (int32_t rank = 0; rank < 3; ++rank) {
    Link mine = job.members[static_cast<size_t>(2 - rank)]->take_link();
    mine.send(20, blob_of(rank));
    ASSERT_TRUE(mine.flush().ok());
    auto message = links[static_cast<size_t>(rank)]->receive();
    ASSERT_TRUE(message.ok() && message->has_value());
    EXPECT_EQ((*message)->body.size(), blob_of(rank).size());
  }
}

TEST(Rendezvous, RootMayLiveInAProcessWithoutRank) {
  Job job;
  job.open_root(77);
  job.add(0, 2);
  job.add(1, 2);
  ASSERT_TRUE(job.form());
  EXPECT_EQ(job.members[0]->table().hub_rank, -1);
  EXPECT_EQ(job.root->hub_rank(), -1);
}

TEST(Rendezvous, AnyAddressThatWorksWillDo) {
  Job job;
  job.open_root(0, {address_of(1, 0), address_of(2, 0), address_of(3, 0), address_of(4, 0)});
  EXPECT_EQ(job.id.roots[2].bytes[3], 3) << "three fit";
  job.network.silent_hosts = {1};
  job.id.roots[1].port = 9;  // nobody there
  job.add(0, 2);
  job.add(1, 2);
  EXPECT_TRUE(job.form(kSecondNs));
}

TEST(Rendezvous, RanksMayComeBeforeTheRoot) {
  Job job;
  job.id.roots[0] = address_of(1, 4000);
  job.add(0, 2);
  job.add(1, 2);
  job.pass(20 * kSecondNs);
  EXPECT_FALSE(job.all_done());
  job.open_root(0, {address_of(1, 4000)});
  EXPECT_TRUE(job.form(2 * kSecondNs));
}

TEST(Rendezvous, MissingRanksAreNamedOnBothSides) {
  Job job;
  job.open_root(0, {address_of(1, 0)}, 3 * kSecondNs);
  for (const int32_t rank : {0, 1, 3, 4, 6}) job.add(rank, 8, -1, 3 * kSecondNs + 500 * kMillisecondNs);
  job.pass(kSecondNs);
  job.members[1].reset();  // rank 1 dies
  EXPECT_TRUE(job.run(10 * kSecondNs, [&] { return !job.root_failure.ok() && !job.failures[0].ok() && !job.failures[4].ok(); }));
  EXPECT_EQ(job.root_failure.code(), Code::timeout);
  EXPECT_THAT(job.root_failure.text(), HasSubstr("4 of 8 ranks did not arrive within 3 s: 1-2,5,7"));
  EXPECT_THAT(job.root_failure.text(), HasSubstr("1 came and went away again"));
  EXPECT_THAT(job.root_failure.text(), HasSubstr("do all ranks use the same unique id"));
  for (const size_t i : {0u, 2u, 3u, 4u}) {
    EXPECT_EQ(job.failures[i].code(), Code::timeout);
    EXPECT_THAT(job.failures[i].text(), HasSubstr("1-2,5,7")) << "told by the root";
  }
  EXPECT_FALSE(job.root->poll(job.now).ok()) << "failed for good";
  EXPECT_FALSE(job.members[0]->poll(job.now).ok());
}

TEST(Rendezvous, MemberNamesTheMissingEvenWhenItsOwnTimeEndsFirst) {
  Job job;
  job.open_root(0, {address_of(1, 0)}, 30 * kSecondNs);
  job.add(0, 3, -1, 2 * kSecondNs);
  EXPECT_TRUE(job.run(5 * kSecondNs, [&] { return !job.failures[0].ok(); }));
  EXPECT_THAT(job.failures[0].text(), HasSubstr("2 of 3 ranks did not arrive within 2 s: 1-2; do all ranks use the same unique id"));
}

TEST(Rendezvous, UnreachableRootIsNamedWithTheReason) {
  Job job;
  job.id.roots[0] = address_of(1, 4000);
  job.id.roots[1] = address_of(2, 4000);
  job.network.silent_hosts = {2};
  job.add(3, 8, -1, 6 * kSecondNs);
  EXPECT_TRUE(job.run(10 * kSecondNs, [&] { return !job.failures[0].ok(); }));
  EXPECT_EQ(job.failures[0].code(), Code::timeout);
  EXPECT_THAT(job.failures[0].text(), AllOf(HasSubstr("rank 3 of 8"), HasSubstr("10.0.0.1:4000: connection refused"),
                                            HasSubstr("10.0.0.2:4000: no answer"), HasSubstr("within 6 s")));
}

TEST(Rendezvous, WaitingIsReportedInTheLog) {
  Job job;
  job.open_root();
  job.add(0, 2);
  job.pass(9 * kSecondNs);
  EXPECT_THAT(job.log_text, Not(HasSubstr("still waits")));
  job.pass(2 * kSecondNs);
  EXPECT_THAT(job.log_text, HasSubstr("rank 0 of 2 still waits for the communicator to form: 1 of 2 ranks did not arrive within 10 s: 1"));
}

TEST(Rendezvous, StrangersDisturbNobody) {
  Job job;
  job.open_root();
  job.add(0, 2);
  std::vector<std::unique_ptr<transport::Stream>> strangers;
  for (const std::string_view text : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n                                                  ", "x", ""}) {
    strangers.push_back(job.knock());
    say(*strangers.back(), text);
  }
  job.knock().reset();  // connects and closes
  job.pass(kSecondNs);
  EXPECT_EQ(job.root->counters().refused, 1u);
  EXPECT_EQ(job.root->counters().withdrawn, 1u);
  EXPECT_EQ(job.root->counters().timed_out, 0u);
  job.add(1, 2);
  EXPECT_TRUE(job.form(100 * kMillisecondNs));
  EXPECT_THAT(job.log_text, HasSubstr("another protocol"));
}

TEST(Rendezvous, AddressesThatLoseTheRaceWereNotRefused) {
  for (const size_t piece : {SIZE_MAX, size_t{50}, size_t{7}}) {
    Job job;
    job.network.piece = piece;
    job.open_root(0, {address_of(1, 0), address_of(2, 0), address_of(3, 0)});
    for (const int32_t rank : {0, 1, 2}) job.add(rank, 4);
    job.pass(3 * kSecondNs);
    EXPECT_EQ(job.root->counters().accepted, 9u);
    EXPECT_EQ(job.root->counters().withdrawn, 6u);
    EXPECT_EQ(job.root->counters().refused, 0u) << job.log_text;
    EXPECT_THAT(job.log_text, Not(HasSubstr("refused")));
    job.add(3, 4);
    EXPECT_TRUE(job.form());
  }
}

TEST(Rendezvous, AClaimWithoutAProofCountsAsRefusedUnlessItsRankComes) {
  Job job;
  job.open_root(0, {address_of(1, 0), address_of(2, 0)});
  job.add(0, 3);
  job.pass(kSecondNs);
  const auto claim = [&job](int32_t rank, int process) {
    const wire::Hello hello{.communicator = rendezvous_number(job.id), .rank = rank, .ranks = 3, .process = process_of(process)};
    auto handshake = wire::Handshake::initiate(crypto(), hello, rendezvous_key(crypto(), job.id), {std::byte{7}});
    const auto stream = job.knock();
    EXPECT_TRUE(advance(handshake, *stream).ok());
  };
  claim(1, 1);  // and closes; its rank comes a little later
  claim(2, 77);
  job.pass(100 * kMillisecondNs);
  job.add(1, 3);
  job.pass(2 * kSecondNs);
  EXPECT_EQ(job.root->counters().refused, 1u) << job.log_text;
  EXPECT_THAT(job.log_text, HasSubstr("the root refused"));
}

TEST(Rendezvous, IdleAndSlowStrangersAreDropped) {
  Job job;
  job.open_root();
  const auto idle = job.knock();
  const auto slow = job.knock();
  for (int i = 0; i < 5; ++i) {
    say(*slow, std::string_view("isthmus!").substr(static_cast<size_t>(i), 1));
    job.pass(1900 * kMillisecondNs);
    EXPECT_EQ(job.root->counters().timed_out, i >= 1 ? 1u : 0u) << i;
  }
  job.pass(kSecondNs);
  EXPECT_EQ(job.root->counters().timed_out, 2u) << "a byte now and then buys no more than 10 s";
  EXPECT_EQ(job.connections_kept(), 0u);
}

TEST(Rendezvous, FloodOfSilentConnectionsIsSurvived) {
  Job job;
  job.open_root();
  std::vector<std::unique_ptr<transport::Stream>> flood;
  job.add(0, 2);
  for (int tick = 0; tick < 300; ++tick) {
    for (int i = 0; i < 10; ++i) flood.push_back(job.knock());  // a thousand a second
    if (tick == 200) job.add(1, 2);
    job.poll();
    job.now += 10 * kMillisecondNs;
    if (tick == 199) {
      EXPECT_LE(job.connections_kept() - 1, 128u + 20u) << "128 inside, the rest not accepted yet";
      EXPECT_GT(job.root->counters().evicted, 1000u);
    }
    if (tick > 200 && job.root_done && job.all_done()) {
      EXPECT_LE(tick, 300) << "within a second";
      return;
    }
  }
  FAIL() << "the job did not form";
}

TEST(Rendezvous, WrongSecretIsRefusedAndSaysSo) {
  Job job;
  job.open_root();
  job.add(0, 2);
  const UniqueId right = job.id;
  job.id.secret[0] ^= std::byte{1};
  job.add(1, 2, -1, 3 * kSecondNs);
  job.pass(4 * kSecondNs);
  EXPECT_THAT(job.failures[1].text(), HasSubstr("secret"));
  EXPECT_GT(job.root->counters().refused, 0u);
  job.id = right;
  job.add(1, 2);
  EXPECT_TRUE(job.run(kSecondNs, [&] { return job.root_done && job.done[0] && job.done[2]; }));
}

TEST(Rendezvous, AnotherCommunicatorIsRefused) {
  Job job;
  job.open_root();
  job.id.nonce[0] ^= std::byte{1};
  job.add(0, 1, -1, kSecondNs);
  job.pass(2 * kSecondNs);
  EXPECT_FALSE(job.failures[0].ok());
  EXPECT_THAT(job.log_text, HasSubstr("no communicator"));
}

TEST(Rendezvous, RankClaimedTwiceIsRefusedWithTheReason) {
  Job job;
  job.open_root();
  job.add(0, 2);
  job.pass(50 * kMillisecondNs);
  job.add(0, 2, 55);
  job.pass(50 * kMillisecondNs);
  EXPECT_EQ(job.failures[1].code(), Code::invalid_usage);
  EXPECT_THAT(job.failures[1].text(), HasSubstr("rank 0 is taken by another process"));
  EXPECT_EQ(job.root->counters().duplicates, 1u);
  job.members[1].reset();
  job.add(1, 2);
  EXPECT_TRUE(job.run(kSecondNs, [&] { return job.root_done && job.done[0] && job.done[2]; }));
}

TEST(Rendezvous, RankMayComeAgainAfterItsConnectionBroke) {
  Job job;
  job.open_root();
  job.add(0, 2);
  job.pass(50 * kMillisecondNs);
  job.network.pipes.back()->reset = true;
  job.pass(kSecondNs);
  EXPECT_TRUE(job.failures[0].ok());
  job.add(1, 2);
  EXPECT_TRUE(job.form());
}

TEST(Rendezvous, RestartedRankReplacesItsDeadPredecessor) {
  Job job;
  job.open_root();
  job.add(0, 2);
  job.pass(50 * kMillisecondNs);
  job.members[0].reset();  // another process takes its place before anybody noticed
  job.add(0, 2, 60);
  job.add(1, 2);
  EXPECT_TRUE(job.run(kSecondNs, [&] { return job.root_done && job.done[1] && job.done[2]; }));
}

TEST(Rendezvous, WrongNumberOfRanksIsRefusedWithBothNumbers) {
  Job job;
  job.open_root();
  job.add(0, 2);
  job.pass(50 * kMillisecondNs);
  job.add(1, 3);
  job.pass(50 * kMillisecondNs);
  EXPECT_EQ(job.failures[1].code(), Code::invalid_usage);
  EXPECT_THAT(job.failures[1].text(), AllOf(HasSubstr("3 ranks"), HasSubstr("said 2")));
  EXPECT_EQ(job.root->counters().misfits, 1u);
}

TEST(Rendezvous, NonsenseFromProvenRanksCostsOnlyTheirPlace) {
  Job job;
  job.open_root();
  job.add(0, 2);
  {
    Link link = job.intrude(1, 2, 70);
    link.send(99, blob_of(1));
    ASSERT_TRUE(link.flush().ok());
    job.pass(20 * kMillisecondNs);
    EXPECT_EQ(job.root->counters().malformed, 1u);
  }
  {
    Link link = job.intrude(1, 2, 71);
    link.send(static_cast<uint8_t>(RendezvousType::blob), std::vector<std::byte>(kMaxBlobBytes + 1));
    ASSERT_TRUE(link.flush().ok());
    job.pass(20 * kMillisecondNs);
    EXPECT_EQ(job.root->counters().left, 1u);
  }
  {
    Link link = job.intrude(1, 2, 72);
    link.send(static_cast<uint8_t>(RendezvousType::blob), blob_of(1));
    link.send(static_cast<uint8_t>(RendezvousType::blob), blob_of(1));
    ASSERT_TRUE(link.flush().ok());
    job.pass(20 * kMillisecondNs);
    EXPECT_EQ(job.root->counters().malformed, 2u);
  }
  EXPECT_FALSE(job.root_done);
  job.add(1, 2);
  EXPECT_TRUE(job.form());
}

TEST(Rendezvous, RankThatDiesAtTheVeryEndIsWaitedFor) {
  Job job;
  job.open_root();
  job.add(0, 3);
  job.add(1, 3);
  job.pass(50 * kMillisecondNs);
  job.members[0].reset();
  job.add(2, 3);  // the last, but rank 0 is gone
  job.pass(50 * kMillisecondNs);
  EXPECT_FALSE(job.root_done);
  job.add(0, 3, 80);
  EXPECT_TRUE(job.run(kSecondNs, [&] { return job.root_done && job.done[1] && job.done[2] && job.done[3]; }));
}

TEST(Rendezvous, FailingAcceptIsRetried) {
  Job job;
  job.open_root();
  job.network.accept_failures = 3;
  job.add(0, 1);
  EXPECT_TRUE(job.form(kSecondNs));
  EXPECT_THAT(job.log_text, HasSubstr("out of descriptors"));
}

TEST(Rendezvous, WhoCannotBeLetInIsExplainedByThoseInside) {
  Job job;
  job.open_root(0, {address_of(1, 0)}, 4 * kSecondNs);
  job.add(0, 2, -1, 3 * kSecondNs);  // hears from the root before its time ends
  job.pass(100 * kMillisecondNs);
  job.network.accept_failures = 1'000'000;
  job.add(1, 2, -1, 3 * kSecondNs);
  EXPECT_TRUE(job.run(10 * kSecondNs, [&] { return !job.root_failure.ok() && !job.failures[0].ok() && !job.failures[1].ok(); }));
  EXPECT_THAT(job.failures[0].text(), AllOf(HasSubstr("1 of 2 ranks did not arrive"), HasSubstr("out of descriptors")));
  EXPECT_THAT(job.root_failure.text(), AllOf(HasSubstr("could not accept connections"), HasSubstr("out of descriptors")));
}

TEST(Rendezvous, WithoutAuthentication) {
  Job job;
  job.proof = &Crypto::none();
  job.id.secret = {};
  job.open_root();
  job.add(0, 2);
  job.add(1, 2);
  EXPECT_TRUE(job.form());
}

TEST(Rendezvous, ArgumentsAreChecked) {
  Job job;
  job.open_root();
  const auto start = [&](Member::Options options) {
    return Member::start(job.surroundings(0), job.id, std::move(options), 0).status().code();
  };
  EXPECT_EQ(start({.rank = 2, .ranks = 2}), Code::invalid_argument);
  EXPECT_EQ(start({.rank = -1, .ranks = 2}), Code::invalid_argument);
  EXPECT_EQ(start({.rank = 0, .ranks = 0}), Code::invalid_argument);
  EXPECT_EQ(start({.rank = 0, .ranks = kMaxRanks + 1}), Code::invalid_argument);
  EXPECT_EQ(start({.blob = std::vector<std::byte>(kMaxBlobBytes + 1)}), Code::invalid_argument);
  EXPECT_FALSE(Root::open(job.surroundings(0), {}, job.id, {}).ok());
  EXPECT_FALSE(Root::open(job.surroundings(0), {}, job.id, job.id.roots).ok()) << "the port is taken";
}

}  // namespace
}  // namespace isthmus::bootstrap
