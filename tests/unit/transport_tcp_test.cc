// SPDX-License-Identifier: Apache-2.0
// Tcp's traffic between honest peers, the same tests over the simulator and over loopback sockets: sizes, order, back-pressure,
// callbacks that send, taking memory back.
#include <algorithm>
#include <map>

#include "transport_tcp_fixture.h"

namespace isthmus::transport {
namespace {

class TcpTraffic : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] bool simulated() const { return GetParam(); }
};

std::string network_name(const testing::TestParamInfo<bool>& info) { return info.param ? "Simulated" : "Sockets"; }
INSTANTIATE_TEST_SUITE_P(Over, TcpTraffic, testing::Values(true, false), network_name);

TEST_P(TcpTraffic, FramesOfAllSizesArriveUnharmed) {
  for (const bool in_pieces : {false, true}) {
    Job job(simulated(), 2);
    job.introduce_all();
    job[1].sink.in_pieces = in_pieces;
    std::vector<std::vector<std::byte>> payloads;
    for (const size_t bytes : {0UL, 1UL, 48UL, 4096UL, 4097UL, 1UL << 20, 0UL, 64UL << 20, 7UL}) {
      payloads.push_back(random_payload(bytes, payloads.size()));
    }
    for (uint32_t i = 0; i < payloads.size(); ++i) {
      ASSERT_TRUE(job[0].tcp->send(1, data_header(i, payloads[i].size()), payloads[i], 100 + i).ok());
    }
    ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == payloads.size(); }));
    for (uint32_t i = 0; i < payloads.size(); ++i) {
      EXPECT_EQ(job[1].sink.frames[i]->header.sequence, i);
      EXPECT_EQ(job[1].sink.frames[i]->from, 0U);
      EXPECT_TRUE(job[1].sink.frames[i]->payload == payloads[i]) << payloads[i].size() << " bytes";
      EXPECT_EQ(job[0].sink.sent[i], 100 + i);
    }
    EXPECT_TRUE(job[0].sink.failures.empty() && job[1].sink.failures.empty());
  }
}

TEST_P(TcpTraffic, HeadersAreCarriedWhole) {
  Job job(simulated(), 2);
  job.introduce_all();
  const wire::FrameHeader header{.type = wire::FrameType::credit,
                                 .call_class = wire::CallClass::send_recv,
                                 .communicator = 0x0123456789abcdef,
                                 .source = 5,
                                 .destination = 6,
                                 .sequence = 7,
                                 .ordinal = 8,
                                 .length = 9,
                                 .key = 10};
  ASSERT_TRUE(job[0].tcp->send(1, header, {}, kNoToken).ok());
  ASSERT_TRUE(job.run_until([&] { return !job[1].sink.frames.empty(); }));
  const wire::FrameHeader& got = job[1].sink.frames[0]->header;
  EXPECT_EQ(got.type, header.type);
  EXPECT_EQ(got.call_class, header.call_class);
  EXPECT_EQ(got.communicator, header.communicator);
  EXPECT_EQ(got.source, 5);
  EXPECT_EQ(got.destination, 6);
  EXPECT_EQ(got.ordinal, 8U);
  EXPECT_EQ(got.length, 9U) << "a credit's length is no payload";
  EXPECT_EQ(got.key, 10U);
  EXPECT_TRUE(job[0].sink.sent.empty()) << "no token, no completion";
}

TEST_P(TcpTraffic, ManySmallFramesKeepTheirOrder) {
  Job job(simulated(), 2, {.streams = 3});
  for (uint64_t communicator = 1; communicator <= 4; ++communicator) job.introduce_all(communicator);
  constexpr uint32_t kFrames = 10'000;
  const std::vector<std::byte> payload = random_payload(300, 5);
  for (uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(job[0].tcp->send(1, data_header(i, i % 300, 1 + i % 4), std::span(payload).first(i % 300), i + 1).ok());
    if (i % 100 == 0) job.turn();
  }
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == kFrames; }));
  std::map<uint64_t, uint32_t> last;
  for (const auto& frame : job[1].sink.frames) {
    const auto [entry, first] = last.try_emplace(frame->header.communicator, frame->header.sequence);
    EXPECT_TRUE(first || entry->second < frame->header.sequence);
    entry->second = frame->header.sequence;
    EXPECT_TRUE(std::equal(frame->payload.begin(), frame->payload.end(), payload.begin()));
  }
  EXPECT_EQ(job[0].sink.sent.size(), kFrames);
  EXPECT_GT(job[0].tcp->counters().streams_opened, 1U) << "communicators spread over the streams";
  EXPECT_LE(job[0].tcp->counters().streams_opened, 3U);
}

TEST_P(TcpTraffic, BothDirectionsAndSeveralPeersAtOnce) {
  constexpr size_t kProcesses = 4;
  Job job(simulated(), kProcesses);
  job.introduce_all();
  const std::vector<std::byte> payload = random_payload(3 << 20, 9);
  for (uint32_t from = 0; from < kProcesses; ++from) {
    for (uint32_t to = 0; to < kProcesses; ++to) {
      if (from == to) continue;
      for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(job[from].tcp->send(to, data_header(i, payload.size()), payload, 1).ok());
    }
  }
  ASSERT_TRUE(job.run_until([&] {
    for (size_t i = 0; i < kProcesses; ++i) {
      if (job[i].sink.complete_frames() < 3 * (kProcesses - 1)) return false;
    }
    return true;
  }));
  for (size_t i = 0; i < kProcesses; ++i) {
    EXPECT_EQ(job[i].tcp->counters().streams_opened, kProcesses - 1);
    EXPECT_EQ(job[i].tcp->counters().streams_accepted, kProcesses - 1);
    for (const auto& frame : job[i].sink.frames) EXPECT_TRUE(frame->payload == payload);
  }
}

TEST_P(TcpTraffic, SendersFeelAReceiverWhoDoesNotPoll) {
  Job job(simulated(), 2);
  job.introduce_all();
  const std::vector<std::byte> payload = random_payload(128 << 20, 3);
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 1), std::span(payload).first(1), 1).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; }));
  ASSERT_TRUE(job[0].tcp->send(1, data_header(1, payload.size()), payload, 2).ok());
  for (int i = 0; i < 2000; ++i) {
    (void)job[0].tcp->poll(job.now());
    if (simulated()) job.world().step();
  }
  EXPECT_EQ(job[0].sink.sent.size(), 1U) << "128 MiB cannot all be in buffers";
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 2; }));
  EXPECT_EQ(job[0].sink.sent.size(), 2U);
  EXPECT_TRUE(job[1].sink.frames[1]->payload == payload);
}

TEST_P(TcpTraffic, CallbacksMaySend) {
  Job job(simulated(), 2);
  job.introduce_all();
  const std::vector<std::byte> payload = random_payload(100'000, 4);
  constexpr uint32_t kRounds = 200;
  for (const size_t me : {0U, 1U}) {
    job[me].sink.when_frame = [&, me](const wire::FrameHeader& header) {
      if (header.sequence >= kRounds) return;
      const size_t bytes = header.sequence % 2 == 0 ? 10 : payload.size();
      ASSERT_TRUE(
          job[me].tcp->send(1 - static_cast<PeerId>(me), data_header(header.sequence + 1, bytes), std::span(payload).first(bytes), 1).ok());
    };
  }
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 10), std::span(payload).first(10), 1).ok());
  EXPECT_TRUE(job.run_until([&] { return job[0].sink.complete_frames() + job[1].sink.complete_frames() == kRounds + 1; }));
}

TEST_P(TcpTraffic, CompletionsMaySend) {
  Job job(simulated(), 2);
  job.introduce_all();
  const std::vector<std::byte> payload = random_payload(50'000, 4);
  constexpr uint32_t kFrames = 300;
  job[0].sink.when_sent = [&](SendToken token) {
    if (token >= kFrames) return;
    const size_t bytes = token % 2 == 0 ? 20 : payload.size();
    ASSERT_TRUE(job[0].tcp->send(1, data_header(static_cast<uint32_t>(token), bytes), std::span(payload).first(bytes), token + 1).ok());
  };
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 20), std::span(payload).first(20), 1).ok());
  EXPECT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == kFrames; }));
}

TEST_P(TcpTraffic, FramesWithoutMessageOvertakeData) {
  Job job(simulated(), 2);
  job.introduce_all();
  const std::vector<std::byte> payload = random_payload(32 << 20, 6);
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, payload.size()), payload, 1).ok());
  ASSERT_TRUE(job.run_until([&] { return !job[1].sink.frames.empty(); }));  // under way
  for (uint32_t i = 1; i <= 3; ++i) ASSERT_TRUE(job[0].tcp->send(1, data_header(i, payload.size()), payload, 1 + i).ok());
  ASSERT_TRUE(job[0].tcp->send(1, data_header(4, 0), {}, 5).ok());
  for (uint32_t i = 5; i <= 6; ++i) {
    wire::FrameHeader grant = data_header(i, 0);
    grant.type = wire::FrameType::grant;
    ASSERT_TRUE(job[0].tcp->send(1, grant, {}, kNoToken).ok());
  }
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 7; }));
  std::vector<uint32_t> order;
  for (const auto& frame : job[1].sink.frames) order.push_back(frame->header.sequence);
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 5, 6, 1, 2, 3, 4})) << "an empty message keeps its place";
  for (uint32_t i = 0; i < 7; ++i) EXPECT_TRUE(job[1].sink.frames[i]->payload.empty() || job[1].sink.frames[i]->payload == payload);
}

TEST_P(TcpTraffic, AbandonTakesMemoryBackFromSends) {
  Job job(simulated(), 2);
  job.introduce_all();
  job.introduce_all(77);
  std::vector<std::byte> large(32 << 20, std::byte{1}), queued(1 << 20, std::byte{2});
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, 1), std::span(large).first(1), 1).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; }));
  ASSERT_TRUE(job[0].tcp->send(1, data_header(1, large.size()), large, 2).ok());
  ASSERT_TRUE(job[0].tcp->send(1, data_header(2, queued.size()), queued, 3).ok());
  ASSERT_TRUE(job[0].tcp->send(1, data_header(3, queued.size(), 77), queued, 4).ok());
  for (int i = 0; i < 3; ++i) (void)job[0].tcp->poll(job.now());
  ASSERT_EQ(job[0].sink.sent.size(), 1U);
  const wire::FrameHeader word{.type = wire::FrameType::done, .communicator = kCommunicator, .source = 0, .destination = 1};
  ASSERT_TRUE(job[0].tcp->send(1, word, {}, kNoToken).ok());
  job[0].tcp->abandon(kCommunicator, 0);
  std::fill(large.begin(), large.end(), std::byte{0xEE});  // ours again
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 4; }));
  const std::vector<std::byte>& cut = job[1].sink.frames[1]->payload;
  EXPECT_EQ(cut.front(), std::byte{1});
  EXPECT_EQ(cut.back(), std::byte{0});
  EXPECT_EQ(std::count(cut.begin(), cut.end(), std::byte{0xEE}), 0);
  EXPECT_EQ(job[1].sink.frames[2]->header.type, wire::FrameType::done) << "what has no memory still goes out";
  EXPECT_EQ(job[1].sink.frames[3]->header.communicator, 77U) << "the queued frame is dropped, another communicator's stays";
  EXPECT_TRUE(job[1].sink.frames[3]->payload == queued);
  EXPECT_EQ(job[0].sink.sent, (std::vector<SendToken>{1, 4}));
}

TEST_P(TcpTraffic, AbandonTakesMemoryBackFromReceives) {
  Job job(simulated(), 2);
  job.introduce_all();
  const std::vector<std::byte> payload(32 << 20, std::byte{1});
  ASSERT_TRUE(job[0].tcp->send(1, data_header(0, payload.size()), payload, 1).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.frames.size() == 1 && job[1].sink.frames[0]->arrived > 0; }));
  Recorder::Frame& frame = *job[1].sink.frames[0];
  job[1].tcp->abandon(kCommunicator, 7);
  const uint64_t before = frame.arrived;
  ASSERT_TRUE(job.run_until([&] { return frame.arrived > before; })) << "another rank's frames go on";
  ASSERT_FALSE(frame.complete());
  job[1].tcp->abandon(kCommunicator, 1);
  const uint64_t arrived = frame.arrived;
  std::fill(frame.payload.begin(), frame.payload.end(), std::byte{0xEE});
  ASSERT_TRUE(job[0].tcp->send(1, data_header(1, 10), std::span(payload).first(10), 2).ok());
  ASSERT_TRUE(job.run_until([&] { return job[1].sink.complete_frames() == 1; }));
  EXPECT_EQ(frame.arrived, arrived);
  EXPECT_EQ(std::count(frame.payload.begin(), frame.payload.end(), std::byte{1}), 0);
  EXPECT_EQ(job[1].sink.frames[1]->header.sequence, 1U);
}

TEST_P(TcpTraffic, OffersNothingInPlace) {
  Job job(simulated(), 2);
  job.introduce_all();
  std::vector<std::byte> memory(100);
  wire::RemoteSpan remote;
  EXPECT_FALSE(job[0].tcp->offer(1, memory, remote));
  EXPECT_FALSE(job[0].tcp->view(1, remote, 0, 10, memory).ok());
  EXPECT_EQ(job[0].tcp->send(9, data_header(0, 0), {}, 1).code(), Code::internal_error) << "an unknown peer";
  EXPECT_LE(job[0].tcp->local_blob().size(), 512U);
}

TEST(TcpSimulated, LossJitterAndPartitionsHarmNothing) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Job job(true, 3, {.streams = 2}, seed);
    job.introduce_all();
    job.introduce_all(2);
    job.world().set_default_link(
        {.latency_ns = 5 * kMillisecondNs, .jitter_ns = 5 * kMillisecondNs, .rate_bytes_per_s = 20e6, .loss = 0.001});
    job.world().at(200 * kMillisecondNs, [&] { job.world().partition(std::vector<SimHost>{0}); });
    job.world().at(3 * kSecondNs, [&] { job.world().heal(); });
    job.world().at(4 * kSecondNs, [&] { job.world().clog(1, 2, kSecondNs); });
    std::vector<std::vector<std::byte>> payloads;
    for (uint32_t i = 0; i < 60; ++i) payloads.push_back(random_payload(job.world().dice().below(200'000), i));
    for (uint32_t i = 0; i < payloads.size(); ++i) {
      for (PeerId from = 0; from < 3; ++from) {
        ASSERT_TRUE(
            job[from].tcp->send((from + 1) % 3, data_header(i, payloads[i].size(), i % 2 == 0 ? kCommunicator : 2), payloads[i], 1).ok());
      }
    }
    ASSERT_TRUE(job.run_until([&] {
      return job[0].sink.complete_frames() + job[1].sink.complete_frames() + job[2].sink.complete_frames() == 3 * payloads.size();
    })) << "seed "
        << seed;
    for (size_t to = 0; to < 3; ++to) {
      EXPECT_TRUE(job[to].sink.failures.empty());
      for (const auto& frame : job[to].sink.frames) EXPECT_TRUE(frame->payload == payloads[frame->header.sequence]) << "seed " << seed;
    }
    EXPECT_GT(job.now(), 3 * kSecondNs);
  }
}

TEST(TcpSimulated, EqualSeedsGiveEqualRuns) {
  const auto hash_of = [](uint64_t seed) {
    Job job(true, 2, {}, seed);
    job.introduce_all();
    job.world().set_default_link({.latency_ns = kMillisecondNs, .jitter_ns = kMillisecondNs, .rate_bytes_per_s = 50e6, .loss = 0.001});
    const std::vector<std::byte> payload = random_payload(1 << 20, 1);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(job[i % 2].tcp->send(1 - i % 2, data_header(i, payload.size()), payload, 1).ok());
    EXPECT_TRUE(job.run_until([&] { return job[0].sink.complete_frames() + job[1].sink.complete_frames() == 4; }));
    return job.world().trace_hash();
  };
  EXPECT_EQ(hash_of(11), hash_of(11));
  EXPECT_NE(hash_of(11), hash_of(12));
}

TEST(TcpSimulated, LargePayloadsOfPeersProgressSideBySide) {
  Job job(true, 3);
  job.introduce_all();
  job.world().set_default_link({.latency_ns = 100 * kMicrosecondNs});
  const std::vector<std::byte> payload(16 << 20);
  for (const size_t from : {0U, 2U}) ASSERT_TRUE(job[from].tcp->send(1, data_header(0, payload.size()), payload, 1).ok());
  uint64_t largest_lead = 0;
  ASSERT_TRUE(job.run_until([&] {
    const auto& frames = job[1].sink.frames;
    if (frames.size() < 2) return false;
    const uint64_t a = frames[0]->arrived, b = frames[1]->arrived;
    if (!frames[0]->complete() && !frames[1]->complete()) largest_lead = std::max(largest_lead, a > b ? a - b : b - a);
    return frames[0]->complete() && frames[1]->complete();
  }));
  EXPECT_LT(largest_lead, 8U << 20) << "one peer waited for the other";
}

}  // namespace
}  // namespace isthmus::transport
