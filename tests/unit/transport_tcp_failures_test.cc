// SPDX-License-Identifier: Apache-2.0
// Tcp among the dead and the hostile: keys that differ or come late, junk at the door, peers that die at every stage. A failure is
// told once, with rank, host and cause, and harms nobody else.
#include <fmt/format.h>

#include "transport_tcp_fixture.h"

namespace isthmus::transport {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class TcpFailures : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] bool simulated() const { return GetParam(); }

  static bool send_one(Job& job, size_t from, PeerId to, uint32_t sequence = 0) {
    static const std::vector<std::byte> payload = random_payload(1000, 1);
    return job[from].tcp->send(to, data_header(sequence, payload.size()), payload, 1).ok();
  }
  /// One small frame each way, so that all streams are open.
  static void warm_up(Job& job) {
    ASSERT_TRUE(send_one(job, 0, 1) && send_one(job, 1, 0));
    ASSERT_TRUE(job.run_until([&] { return job[0].sink.complete_frames() == 1 && job[1].sink.complete_frames() == 1; }));
  }
  static void expect_failure(Job& job, size_t at, PeerId of, const std::string& cause) {
    ASSERT_TRUE(job.run_until([&] { return !job[at].sink.failures.empty(); }));
    job.run_for(50 * kMillisecondNs);
    ASSERT_EQ(job[at].sink.failures.size(), 1U) << "told more than once";
    const auto& [peer, why] = job[at].sink.failures.front();
    EXPECT_EQ(peer, of);
    EXPECT_EQ(why.code(), Code::remote_error);
    EXPECT_EQ(why.origin_rank(), static_cast<int>(of));
    EXPECT_TRUE(contains(why.text(), fmt::format("rank {0} on host host{0}: ", of))) << why.text();
    EXPECT_TRUE(contains(why.text(), cause)) << why.text();
    EXPECT_EQ(job[at].tcp->send(of, data_header(99, 0), {}, 1).text(), why.text()) << "later sends get the cause";
  }
};

std::string network_name(const testing::TestParamInfo<bool>& info) { return info.param ? "Simulated" : "Sockets"; }
INSTANTIATE_TEST_SUITE_P(Over, TcpFailures, testing::Values(true, false), network_name);

TEST_P(TcpFailures, WrongKeyIsRefusedByBothSides) {
  Job job(simulated(), 3, {.setup_timeout_ns = 500 * kMillisecondNs});
  job.introduce(1, 0, kCommunicator, Job::key(1));
  job.introduce(0, 1, kCommunicator, Job::key(2));
  job.introduce(2, 1, kCommunicator, Job::key(2));
  job.introduce(1, 2, kCommunicator, Job::key(2));
  ASSERT_TRUE(send_one(job, 0, 1) && send_one(job, 2, 1));
  expect_failure(job, 0, 1, "does not hold this communicator's secret");
  EXPECT_TRUE(contains(job[0].sink.failures[0].second.text(), "tried " + to_string(job.address(1)))) << "names the address";
  EXPECT_GT(job[1].tcp->counters().strangers_refused, 0U);
  EXPECT_TRUE(job[1].sink.failures.empty());
  EXPECT_EQ(job[1].sink.complete_frames(), 1U) << "the honest peer's";
  EXPECT_EQ(job[1].sink.frames[0]->from, 2U);
}

TEST_P(TcpFailures, UnknownCommunicatorIsWaitedFor) {
  Job job(simulated(), 2);
  job.introduce(1, 0);
  ASSERT_TRUE(send_one(job, 0, 1));
  job.run_for(simulated() ? 20 * kSecondNs : 300 * kMillisecondNs);
  EXPECT_EQ(job[1].sink.frames.size(), 0U);
  job.introduce(0, 1);
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; })) << testing::PrintToString(job[1].refusals);
  EXPECT_EQ(job[1].tcp->counters().strangers_timed_out, 0U);
  EXPECT_EQ(job[1].tcp->counters().streams_accepted, 1U);
}

TEST_P(TcpFailures, FurtherCommunicatorsShareTheStream) {
  Job job(simulated(), 2);
  job.introduce_all();
  warm_up(job);
  job.introduce_all(2);
  job[0].tcp->forget_key(kCommunicator);
  job[1].tcp->forget_key(kCommunicator);
  ASSERT_TRUE(job[0].tcp->send(1, data_header(1, 0, 2), {}, 1).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 2; }));
  EXPECT_EQ(job[0].tcp->counters().streams_opened, 1U);
}

TEST_P(TcpFailures, ForgottenKeysOpenNothing) {
  Job job(simulated(), 2, {.setup_timeout_ns = 300 * kMillisecondNs});
  job.introduce_all();
  job[1].tcp->forget_key(kCommunicator);
  ASSERT_TRUE(send_one(job, 0, 1));
  expect_failure(job, 0, 1, "no connection within");
  EXPECT_EQ(job[1].tcp->send(0, data_header(0, 0), {}, 1).code(), Code::invalid_usage);
}

TEST_P(TcpFailures, AnotherProcessAtTheAddressIsNotThePeer) {
  Job job(simulated(), 3, {.setup_timeout_ns = 300 * kMillisecondNs});
  job.introduce(0, 2);
  const std::vector<std::byte> blob = job[2].tcp->local_blob();  // where process 1 should be, process 2 listens
  ASSERT_TRUE(
      job[0]
          .tcp
          ->add_peer(1, {.process = job[1].id, .blob = blob, .communicator = kCommunicator, .key = Job::key(), .rank = 1, .host = "host1"})
          .ok());
  ASSERT_TRUE(send_one(job, 0, 1));
  expect_failure(job, 0, 1, "another process of the job answers at");
}

TEST_P(TcpFailures, MalformedBlobsAreRefused) {
  Job job(simulated(), 2);
  std::vector<std::byte> blob = job[1].tcp->local_blob();
  const auto add = [&](std::span<const std::byte> bytes) {
    return job[0]
        .tcp->add_peer(1, {.process = job[1].id, .blob = bytes, .communicator = kCommunicator, .key = Job::key(), .rank = 1})
        .code();
  };
  EXPECT_EQ(add({}), Code::remote_error);
  EXPECT_EQ(add(std::span(blob).first(blob.size() - 1)), Code::remote_error);
  blob[0] = std::byte{255};
  EXPECT_EQ(add(blob), Code::remote_error);
  blob = job[1].tcp->local_blob();
  blob[1] = std::byte{9};
  EXPECT_EQ(add(blob), Code::remote_error) << "an unknown family";
}

TEST_P(TcpFailures, JunkAtTheDoorDisturbsNobody) {
  Job job(simulated(), 3);
  job.introduce_all();
  const Address door = job.address(1);
  std::vector<std::unique_ptr<Stream>> junk;
  const std::string http = "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: scanner/1.0 (a line long enough to fill a greeting)\r\n\r\n";
  for (int i = 0; i < 40; ++i) junk.push_back(job.network(2).connect(door, {}).value());
  job.run_for(20 * kMillisecondNs);
  for (size_t i = 0; i < 20; ++i) EXPECT_GT(*junk[i]->write(as_bytes(http)), 0U);
  junk.resize(30);  // some close without a word
  warm_up(job);
  EXPECT_TRUE(job.run_until([&] { return job[1].tcp->counters().strangers_refused == 30; })) << job[1].tcp->counters().strangers_refused;
  EXPECT_EQ(job[1].refusals.size(), 30U);
  EXPECT_TRUE(contains(job[1].refusals[0], "speaks another protocol")) << job[1].refusals[0];
  EXPECT_TRUE(job.run_until([&] { return job[1].tcp->counters().strangers_timed_out == 10; })) << "the silent ones";
  EXPECT_TRUE(job[1].sink.failures.empty());
  EXPECT_EQ(job[1].sink.frames.size(), 1U);
}

TEST_P(TcpFailures, FloodsOfSilentConnectionsGiveWay) {
  Job job(simulated(), 3);
  job.introduce_all();
  std::vector<std::unique_ptr<Stream>> junk;
  for (int i = 0; i < 400; ++i) junk.push_back(job.network(2).connect(job.address(1), {}).value());
  job.run_for(20 * kMillisecondNs);
  const TimeNs start = job.now();
  warm_up(job);
  if (simulated()) {
    EXPECT_LT(job.now() - start, kSecondNs);
  }
  EXPECT_GT(job[1].tcp->counters().strangers_timed_out, 100U);
}

TEST_P(TcpFailures, NobodyListensUntilTheDeadline) {
  Job job(simulated(), 2, {.setup_timeout_ns = 300 * kMillisecondNs});
  job.introduce_all();
  job[1].tcp.reset();
  ASSERT_TRUE(send_one(job, 0, 1));
  expect_failure(job, 0, 1, "Connection refused");
  EXPECT_TRUE(job[0].sink.sent.empty());
}

TEST_P(TcpFailures, IdlePeerDies) {
  Job job(simulated(), 2);
  job.introduce_all();
  warm_up(job);
  job[1].tcp.reset();
  expect_failure(job, 0, 1, "closed by peer");
}

TEST_P(TcpFailures, PeerThatOnlySentDies) {
  Job job(simulated(), 2, {.streams = 2});
  for (uint64_t communicator = 1; communicator <= 8; ++communicator) {
    job.introduce_all(communicator);
    ASSERT_TRUE(job[1].tcp->send(0, data_header(0, 0, communicator), {}, 1).ok());
  }
  ASSERT_TRUE(job.run_until([&] { return job[0].sink.complete_frames() == 8; }));
  ASSERT_EQ(job[0].tcp->counters().streams_accepted, 2U);
  job[1].tcp.reset();
  expect_failure(job, 0, 1, "closed by peer");
}

TEST_P(TcpFailures, PeerDiesInTheMiddleOfAFrame) {
  Job job(simulated(), 2);
  job.introduce_all();
  warm_up(job);
  const std::vector<std::byte> payload = random_payload(64 << 20, 2);
  ASSERT_TRUE(job[1].tcp->send(0, data_header(1, payload.size()), payload, 2).ok());
  ASSERT_TRUE(job[0].tcp->send(1, data_header(1, payload.size()), payload, 2).ok());
  ASSERT_TRUE(job.run_until([&] { return job[0].sink.frames.size() == 2 && job[0].sink.frames[1]->arrived > 0; }));
  job[1].tcp.reset();
  expect_failure(job, 0, 1, "");
  EXPECT_EQ(job[0].sink.sent.size(), 1U) << "what was not taken is not sent";
}

TEST_P(TcpFailures, LastWordsAreHeard) {
  for (int round = 0; round < (simulated() ? 20 : 5); ++round) {
    Job job(simulated(), 2, {}, static_cast<uint64_t>(round) + 1);
    job.world().set_default_link({.latency_ns = kMillisecondNs, .jitter_ns = 10 * kMillisecondNs});
    job.introduce_all();
    if (round % 2 == 0) warm_up(job);
    const std::vector<std::byte> payload = random_payload(1 << 20, 3);
    ASSERT_TRUE(send_one(job, 0, 1, 1));
    ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() >= 1 && job[1].sink.frames.back()->header.sequence == 1; }));
    ASSERT_TRUE(job[1].tcp->send(0, data_header(2, payload.size()), payload, 5).ok());
    ASSERT_TRUE(job.run_until([&] { return !job[1].sink.sent.empty() && job[1].sink.sent.back() == 5; }));
    job[1].tcp.reset();
    expect_failure(job, 0, 1, "closed by peer");
    ASSERT_FALSE(job[0].sink.frames.empty());
    EXPECT_EQ(job[0].sink.frames.back()->header.sequence, 2U);
    EXPECT_TRUE(job[0].sink.frames.back()->complete()) << "round " << round;
  }
}

TEST_P(TcpFailures, OtherPeersGoOn) {
  Job job(simulated(), 3);
  job.introduce_all();
  warm_up(job);
  const std::vector<std::byte> payload = random_payload(16 << 20, 2);
  ASSERT_TRUE(job[0].tcp->send(2, data_header(1, payload.size()), payload, 2).ok());
  job[1].tcp.reset();
  expect_failure(job, 0, 1, "");
  ASSERT_TRUE(job.run_until([&] { return job[2].sink.complete_frames() == 1; }));
  EXPECT_TRUE(job[2].sink.frames[0]->payload == payload);
}

TEST_P(TcpFailures, NonsenseAfterTheHandshakeFailsThePeer) {
  Job job(simulated(), 2);
  job.introduce_all();
  const wire::Hello hello{.communicator = kCommunicator, .purpose = wire::Purpose::data, .process = job[1].id};
  wire::Handshake handshake = wire::Handshake::initiate(Job::crypto(), hello, Job::key(), {});
  Readiness readiness;
  auto stream = job.network(1).connect(job.address(0), {}).value();
  Stream* raw = stream.get();
  Greeting greeting(std::move(stream), std::move(handshake), 0);
  ASSERT_TRUE(readiness.watch(greeting, raw->fd()).ok());
  ASSERT_TRUE(job.run_until([&] {
    readiness.collect(0);
    readiness.take_turns(job.now());
    return greeting.done();
  }));
  const std::string nonsense(100, 'x');
  ASSERT_EQ(*raw->write(as_bytes(nonsense)), nonsense.size());
  expect_failure(job, 0, 1, "wrong magic number");
}

TEST(TcpFailuresSimulated, KeyThatNeverComesEndsAtTheDeadline) {
  Job job(true, 2);
  job.introduce(1, 0);
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 0), {}, 1).ok());
  ASSERT_TRUE(job.run_until([&] { return !job[0].sink.failures.empty(); }));
  EXPECT_GE(job.now(), 30 * kSecondNs);
  EXPECT_LT(job.now(), 32 * kSecondNs);
  EXPECT_TRUE(job.run_until([&] { return job[1].tcp->counters().strangers_refused + job[1].tcp->counters().strangers_timed_out == 1; }));
}

TEST(TcpFailuresSimulated, HostThatVanishesTimesOut) {
  Job job(true, 2, {.stream = {.user_timeout_ns = 5 * kSecondNs}});
  job.introduce_all();
  const std::vector<std::byte> payload = random_payload(1 << 20, 1);
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, payload.size()), payload, 1).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; }));
  job.world().crash(1, SimCrash::vanished);
  ASSERT_TRUE(job[0].tcp->send(1, data_header(1, payload.size()), payload, 1).ok());
  const TimeNs start = job.now();
  ASSERT_TRUE(job.run_until([&] { return !job[0].sink.failures.empty(); }));
  EXPECT_TRUE(contains(job[0].sink.failures[0].second.text(), "timed out")) << job[0].sink.failures[0].second.text();
  EXPECT_LT(job.now() - start, 7 * kSecondNs);
}

TEST(TcpFailuresSimulated, HostThatIsKilledIsNoticedAtOnce) {
  Job job(true, 2);
  job.introduce_all();
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 0), {}, 1).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; }));
  job.world().crash(1, SimCrash::killed);
  const TimeNs start = job.now();
  ASSERT_TRUE(job.run_until([&] { return !job[0].sink.failures.empty(); }));
  EXPECT_LT(job.now() - start, 2 * kSecondNs);
}

TEST(TcpFailuresSimulated, ConnectingSurvivesAPartition) {
  Job job(true, 2);
  job.introduce_all();
  job.world().partition(std::vector<SimHost>{0});
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 0), {}, 1).ok());
  job.world().at(12 * kSecondNs, [&] { job.world().heal(); });
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; }));
  EXPECT_LT(job.now(), 20 * kSecondNs);
  EXPECT_TRUE(job[0].sink.failures.empty());
}

TEST(TcpFailuresSimulated, DeathAtAnyMomentIsToldOnce) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Job job(true, 3, {.streams = 2, .setup_timeout_ns = 2 * kSecondNs}, seed);
    job.introduce_all();
    job.world().set_default_link({.latency_ns = kMillisecondNs, .jitter_ns = kMillisecondNs, .rate_bytes_per_s = 500e6});
    const std::vector<std::byte> payload = random_payload(200'000, seed);
    for (uint32_t i = 0; i < 6; ++i) {
      for (PeerId from = 0; from < 3; ++from) {
        ASSERT_TRUE(job[from].tcp->send((from + 1 + i % 2) % 3, data_header(i, payload.size()), payload, 1).ok());
      }
    }
    job.run_for(static_cast<TimeNs>(job.world().dice().below(15 * kMillisecondNs)));
    if (seed % 2 == 0) {
      job[2].tcp.reset();
    } else {
      job.world().crash(2, SimCrash::killed);
    }
    ASSERT_TRUE(job.run_until([&] { return job[0].sink.complete_frames() >= 3 && job[1].sink.complete_frames() >= 3; }, 5 * kSecondNs) ||
                !job[0].sink.failures.empty());
    job.run_for(5 * kSecondNs);
    for (const size_t survivor : {0U, 1U}) {
      ASSERT_EQ(job[survivor].sink.failures.size(), 1U) << "seed " << seed;
      EXPECT_EQ(job[survivor].sink.failures[0].first, 2U);
      size_t from_other = 0;
      for (const auto& frame : job[survivor].sink.frames) from_other += frame->from != 2 && frame->complete() ? 1 : 0;
      EXPECT_EQ(from_other, 3U) << "the survivors' traffic is whole, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace isthmus::transport
