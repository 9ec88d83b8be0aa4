// SPDX-License-Identifier: Apache-2.0
// Loopback: order, both ways of delivery, sends from inside callbacks, reads in place, and refusal of strangers.
#include "transport/local/loopback.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace isthmus::transport {
namespace {

constexpr PeerId kSelf = 3;

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 131 + seed * 17) >> 3);
  return out;
}

/// Records what arrives; even ordinals land, odd ones come as pieces.
class Recorder : public FrameSink {
 public:
  std::span<std::byte> on_frame(PeerId from, const wire::FrameHeader& header) override {
    EXPECT_EQ(from, kSelf);
    ordinals.push_back(header.ordinal);
    received.assign(header.length, std::byte{0});
    arrived = 0;
    if (when_frame) when_frame(header);
    return header.ordinal % 2 == 0 ? std::span(received) : std::span<std::byte>();
  }
  void on_landed(PeerId, const wire::FrameHeader&, uint64_t offset, uint64_t bytes) override {
    EXPECT_EQ(offset, arrived);
    arrived += bytes;
    pieces++;
  }
  void on_bytes(PeerId, const wire::FrameHeader&, uint64_t offset, std::span<const std::byte> bytes) override {
    EXPECT_EQ(offset, arrived);
    where = bytes.data();
    std::memcpy(received.data() + offset, bytes.data(), bytes.size());
    arrived += bytes.size();
    pieces++;
  }
  void on_sent(SendToken token) override { sent.push_back(token); }
  void on_peer_failed(PeerId, const Status&) override { ADD_FAILURE() << "a process cannot lose itself"; }

  std::function<void(const wire::FrameHeader&)> when_frame;
  std::vector<uint32_t> ordinals;
  std::vector<SendToken> sent;
  std::vector<std::byte> received;
  const std::byte* where = nullptr;
  uint64_t arrived = 0;
  int pieces = 0;
};

class LoopbackTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(loopback.add_peer(kSelf, {}).ok()); }
  void send(uint32_t ordinal, std::span<const std::byte> payload, SendToken token) {
    ASSERT_TRUE(loopback.send(kSelf, {.ordinal = ordinal, .length = payload.size()}, payload, token).ok());
  }
  Recorder sink;
  Loopback loopback{sink};
};

TEST_F(LoopbackTest, DeliversEverySizeBothWays) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, size_t{262144}, size_t{262145}, size_t{3} << 20}) {
    for (uint32_t ordinal : {0U, 1U}) {
      const auto payload = pattern(bytes, ordinal);
      sink.pieces = 0;
      send(ordinal, payload, 1 + ordinal);
      EXPECT_TRUE(loopback.poll(0));
      EXPECT_EQ(sink.received, payload);
      EXPECT_EQ(sink.arrived, bytes);
      EXPECT_EQ(sink.sent.back(), 1 + ordinal);
      if (bytes == 0) {
        EXPECT_EQ(sink.pieces, 0);
      }
      if (ordinal == 1 && bytes > 0) {
        EXPECT_EQ(sink.where, payload.data()) << "pieces are the sender's own memory";
      }
    }
  }
  EXPECT_FALSE(loopback.poll(0));
}

TEST_F(LoopbackTest, KeepsOrderAndDefersWhatCallbacksSend) {
  const auto payload = pattern(100, 0);
  for (uint32_t i = 0; i < 10; ++i) send(i, payload, kNoToken);
  sink.when_frame = [&](const wire::FrameHeader& header) {
    if (header.ordinal < 100) send(header.ordinal + 100, payload, kNoToken);
  };
  EXPECT_TRUE(loopback.poll(0));
  EXPECT_EQ(sink.ordinals.size(), 10U);
  EXPECT_TRUE(loopback.poll(0));
  EXPECT_FALSE(loopback.poll(0));
  ASSERT_EQ(sink.ordinals.size(), 20U);
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(sink.ordinals[i], i < 10 ? i : i + 90);
  EXPECT_TRUE(sink.sent.empty()) << "kNoToken is nobody's";
}

TEST_F(LoopbackTest, LandsInTheMemoryItCameFrom) {
  auto memory = pattern(600000, 5);
  const auto before = memory;
  class InPlace : public Recorder {
   public:
    explicit InPlace(std::span<std::byte> to) : to_(to) {}
    std::span<std::byte> on_frame(PeerId, const wire::FrameHeader&) override { return to_; }
    std::span<std::byte> to_;
  } in_place{memory};
  Loopback other(in_place);
  ASSERT_TRUE(other.add_peer(kSelf, {}).ok());
  ASSERT_TRUE(other.send(kSelf, {.length = memory.size()}, memory, 9).ok());
  EXPECT_TRUE(other.poll(0));
  EXPECT_EQ(in_place.arrived, memory.size());
  EXPECT_EQ(memory, before);
}

TEST_F(LoopbackTest, ReadsInPlace) {
  const auto memory = pattern(1000, 2);
  wire::RemoteSpan remote;
  ASSERT_TRUE(loopback.offer(kSelf, memory, remote));
  const auto seen = loopback.view(kSelf, remote, 10, 990, {});
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(seen->data(), memory.data() + 10);
  EXPECT_EQ(seen->size(), 990U);
  EXPECT_FALSE(loopback.view(kSelf, remote, 11, 990, {}).ok());
  EXPECT_FALSE(loopback.view(kSelf, remote, UINT64_MAX, 2, {}).ok());
}

TEST_F(LoopbackTest, ForgetsWhatAnAbandonedRankSent) {
  const auto payload = pattern(100, 0);
  for (int32_t source : {5, 6, 5, 7}) {
    const wire::FrameHeader header{.communicator = 4, .source = source, .length = 100};
    ASSERT_TRUE(loopback.send(kSelf, header, payload, static_cast<SendToken>(source)).ok());
  }
  loopback.abandon(3, 6);
  loopback.abandon(4, 5);
  EXPECT_TRUE(loopback.poll(0));
  EXPECT_EQ(sink.sent, (std::vector<SendToken>{6, 7}));
}

TEST_F(LoopbackTest, DeliversTheLastWordsOfAnAbandonedRank) {
  ASSERT_TRUE(loopback.send(kSelf, {.type = wire::FrameType::done, .communicator = 4, .source = 5, .sequence = 9}, {}, kNoToken).ok());
  loopback.abandon(4, 5);
  std::vector<uint32_t> arrived;
  sink.when_frame = [&](const wire::FrameHeader& header) { arrived.push_back(header.sequence); };
  EXPECT_TRUE(loopback.poll(0));
  EXPECT_EQ(arrived, (std::vector<uint32_t>{9})) << "somebody may wait to hear that a message was taken";
}

TEST_F(LoopbackTest, MayBeToldToAbandonWhileItDelivers) {
  for (const int32_t rank : {1, 2}) {
    sink.sent.clear();
    sink.pieces = 0;
    const auto payload = pattern(1 << 20, 0);
    const wire::FrameHeader header{.communicator = 4, .source = 1, .destination = 2, .length = payload.size()};
    for (SendToken token : {8U, 9U}) ASSERT_TRUE(loopback.send(kSelf, header, payload, token).ok());
    sink.when_frame = [&](const wire::FrameHeader&) { loopback.abandon(4, rank); };
    EXPECT_TRUE(loopback.poll(0));
    EXPECT_EQ(sink.pieces, 0) << "nothing lands after abandon()";
    EXPECT_EQ(sink.sent.size(), rank == 1 ? 0U : 2U) << "the sender keeps its promise if only the receiver gave up";
  }
}

TEST_F(LoopbackTest, ArmsOnlyWhenIdle) {
  std::vector<Wait> waits;
  EXPECT_TRUE(loopback.arm(waits));
  EXPECT_TRUE(waits.empty());
  send(0, {}, kNoToken);
  EXPECT_FALSE(loopback.arm(waits));
  loopback.disarm();
}

TEST_F(LoopbackTest, RefusesStrangers) {
  EXPECT_EQ(loopback.send(kSelf + 1, {}, {}, kNoToken).code(), Code::internal_error);
  EXPECT_TRUE(loopback.add_peer(kSelf, {.communicator = 2}).ok());
  EXPECT_EQ(loopback.add_peer(kSelf + 1, {}).code(), Code::internal_error);
}

}  // namespace
}  // namespace isthmus::transport
