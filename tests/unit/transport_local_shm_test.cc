// SPDX-License-Identifier: Apache-2.0
// Shm between two ends in one process, driven in turn: sizes, order, back-pressure, who connects, keys, offers, refusals, and peers
// that break the rules. Real processes are in transport_local_shm_proc_test.cc.
#include "transport/local/shm.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <random>

#include "transport_local_shm_nodes.h"

namespace isthmus::transport {
namespace {

TEST(Shm, CarriesEverySizeInOrderBothWays) {
  Pair pair;
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 0; bytes <= 300; ++bytes) sizes.push_back(bytes);
  for (uint64_t bytes = 512; bytes <= 8 << 20; bytes *= 2) {
    for (uint64_t off : {-1, 0, 1}) sizes.push_back(bytes + off);
  }
  std::vector<std::vector<std::byte>> payloads;
  for (uint64_t i = 0; i < sizes.size(); ++i) payloads.push_back(payload_of(i, sizes[i]));
  for (uint64_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(pair.a.send(2, payloads[i], i + 1).ok());
    ASSERT_TRUE(pair.b.send(1, payloads[i], i + 1).ok());
  }
  ASSERT_TRUE(run_until({&pair.a, &pair.b},
                        [&] { return pair.a.sink.froms[2].frames == sizes.size() && pair.b.sink.froms[1].frames == sizes.size(); }));
  ASSERT_EQ(pair.a.sink.sent.size(), sizes.size());
  for (uint64_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(pair.a.sink.sent[i], i + 1) << "completions come in order";
  EXPECT_TRUE(pair.a.notices.empty()) << pair.a.notices[0];
  const auto may_come_whole = [&](uint64_t key) { return key % 3 == 0 && sizes[key] > 0 && sizes[key] <= pair.b.shm->whole_bytes(); };
  uint64_t expected = 0;
  for (uint64_t key = 0; key < sizes.size(); ++key) expected += may_come_whole(key) ? 1 : 0;
  EXPECT_EQ(pair.b.sink.whole_frames, expected);
}

TEST(Shm, AGlanceTakesOneFrame) {
  Pair pair;
  EXPECT_FALSE(pair.b.shm->glance(1)) << "there is no connection";
  EXPECT_FALSE(pair.b.shm->glance(9)) << "nor such a peer";
  pair.connect();
  EXPECT_FALSE(pair.b.shm->glance(1));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.a.send_new(2, 100).ok());
  for (uint64_t taken = 1; taken <= 3; ++taken) {
    EXPECT_TRUE(pair.b.shm->glance(1));
    EXPECT_EQ(pair.b.sink.froms[1].frames, 1 + taken);
  }
  EXPECT_FALSE(pair.b.shm->glance(1));
}

TEST(Shm, CopiesWhatFitsAndMakesTheRestWait) {
  Pair pair;
  pair.connect();
  const auto small = payload_of(1, 8);
  ASSERT_TRUE(pair.a.send(2, small, 7).ok());
  EXPECT_EQ(pair.a.sink.sent.size(), 1U) << "a small frame is done when send() returns";
  const auto large = payload_of(2, 1 << 20);
  ASSERT_TRUE(pair.a.send(2, large, 8).ok());
  const auto after = payload_of(3, 8);
  ASSERT_TRUE(pair.a.send(2, after, 9).ok());
  for (int i = 0; i < 100; ++i) pair.a.poll();
  EXPECT_EQ(pair.a.sink.sent.size(), 1U) << "the ring is full and nobody reads";
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return pair.a.sink.sent.size() == 3; }));
  ASSERT_TRUE(run_until({&pair.b}, [&] { return pair.b.sink.froms[1].frames == 4; }));
}

TEST(Shm, CallbacksMaySend) {
  Pair pair;
  const auto answer = [](Node& node, int to) {
    return [&node, to](PeerId, const wire::FrameHeader&) {
      const uint64_t key = node.next_key[to];
      if (key < 500) {
        ASSERT_TRUE(node.send_new(to, key % 7 == 0 ? 300000 : 30).ok());
      }
    };
  };
  pair.a.sink.when_frame = answer(pair.a, 2);
  pair.b.sink.when_frame = answer(pair.b, 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.a.send_new(2, 100).ok());
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return pair.b.sink.froms[1].frames == 500; }));
}

TEST(Shm, WhoeverBeginsThereIsOneConnection) {
  for (int round = 0; round < 30; ++round) {
    Pair pair;
    const auto frame = payload_of(0, 40);
    std::mt19937 random(static_cast<unsigned>(round));
    if (round % 3 != 1) {
      ASSERT_TRUE(pair.a.send(2, frame).ok());
    }
    for (unsigned i = random() % 12; i > 0; --i) (random() % 2 == 0 ? pair.a : pair.b).poll();
    if (round % 3 != 0) {
      ASSERT_TRUE(pair.b.send(1, frame).ok());
    }
    ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] {
      return pair.b.sink.froms[1].frames == (round % 3 != 1) && pair.a.sink.froms[2].frames == (round % 3 != 0);
    })) << round;
    ASSERT_TRUE(pair.a.send_new(2, 8).ok());
    ASSERT_TRUE(pair.b.send_new(1, 8).ok());
    ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] {
      return pair.b.sink.froms[1].frames == pair.a.next_key[2] && pair.a.sink.froms[2].frames == pair.b.next_key[1];
    })) << round;
    EXPECT_TRUE(pair.a.sink.failures.empty() && pair.b.sink.failures.empty());
  }
}

TEST(Shm, ManyPeersConnectAtOnce) {
  constexpr int kNodes = 12;
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.reserve(kNodes);
  for (int i = 0; i < kNodes; ++i) nodes.push_back(std::make_unique<Node>(i, ShmOptions{.ring_bytes = RingPair::kLeastBytes}));
  for (auto& node : nodes) {
    for (auto& other : nodes) {
      if (node != other) node->meet(*other);
    }
  }
  const auto frame = payload_of(0, 1000);
  for (auto& node : nodes) {
    for (auto& other : nodes) {
      if (node != other) {
        ASSERT_TRUE(node->send(other->number, frame).ok());
      }
    }
  }
  const TimeNs limit = now() + 10 * kSecondNs;
  for (size_t complete = 0; complete < kNodes * (kNodes - 1);) {
    complete = 0;
    for (auto& node : nodes) {
      node->poll();
      for (auto& [peer, from] : node->sink.froms) complete += from.frames;
    }
    ASSERT_LT(now(), limit);
  }
}

TEST(Shm, WaitsForAPeerThatDoesNotKnowUsYet) {
  Node a(1);
  Node b(2);
  a.meet(b);
  ASSERT_TRUE(a.send_new(2, 8).ok());
  const TimeNs later = now() + 30 * kMillisecondNs;
  ASSERT_TRUE(run_until({&a, &b}, [&] { return now() > later; }));
  EXPECT_TRUE(a.sink.failures.empty());
  b.meet(a);
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.sink.froms[1].frames == 1; }));
}

TEST(Shm, AnyCommonKeyWillDo) {
  Pair pair;  // both know communicator 1
  pair.a.meet(pair.b, 5);
  pair.a.shm->forget_key(1);
  pair.a.meet(pair.b, 6);
  pair.b.meet(pair.a, 6);
  ASSERT_TRUE(pair.b.send_new(1, 8).ok()) << "under communicator 1, which the other has forgotten";
  ASSERT_TRUE(pair.a.send_new(2, 8, kNoToken, 6).ok());
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return pair.b.sink.froms[1].frames == 1 && pair.a.sink.froms[2].frames == 1; }));
}

TEST(Shm, AWrongKeyIsRefusedAndSaid) {
  Node a(1, {.setup_timeout_ns = 100 * kMillisecondNs});
  Node b(2);
  a.meet(b);
  const Key other = key_of(99);
  b.meet(1, a.shm->local_blob(), 1, &other);
  ASSERT_TRUE(a.send_new(2, 8).ok());
  ASSERT_TRUE(run_until({&a, &b}, [&] { return !a.sink.failures.empty(); }));
  const Status why = a.sink.failures[2].at(0);
  EXPECT_EQ(why.code(), Code::timeout);
  EXPECT_EQ(why.origin_rank(), 2);
  EXPECT_NE(why.text().find("rank 2 on host here: no connection within 100 ms"), std::string::npos) << why.text();
  EXPECT_EQ(b.sink.froms[1].frames, 0U);
  EXPECT_EQ(a.send(2, {}).code(), Code::timeout) << "a failed peer stays failed";
  EXPECT_EQ(a.sink.failures[2].size(), 1U);
}

TEST(Shm, WhatAnAbandonedRankSentIsNotReadAnyMore) {
  Pair pair;
  pair.connect();
  pair.b.sink.check_content = false;
  std::vector<uint64_t> arrived;
  pair.b.sink.when_frame = [&](PeerId, const wire::FrameHeader& header) { arrived.push_back(header.key); };
  std::vector<std::byte> memory(1 << 20, std::byte{1});
  const auto send = [&](uint64_t communicator, int32_t source, uint64_t key) {
    const wire::FrameHeader header{.communicator = communicator, .source = source, .length = memory.size(), .key = key};
    ASSERT_TRUE(pair.a.shm->send(2, header, memory, key).ok());
  };
  send(1, 0, 1);  // begun: the ring takes a part of it
  send(1, 0, 77);
  send(1, 3, 2);
  send(2, 0, 3);
  send(1, 0, 77);
  const wire::FrameHeader word{.type = wire::FrameType::done, .communicator = 1, .source = 0, .key = 4};
  ASSERT_TRUE(pair.a.shm->send(2, word, {}, kNoToken).ok());
  pair.a.shm->abandon(1, 0);
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return arrived.size() == 1; }));
  EXPECT_EQ(pair.b.sink.froms[1].landing.front(), std::byte{1});
  EXPECT_EQ(pair.b.sink.froms[1].landing.back(), std::byte{0}) << "completed with zeros";
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return arrived.size() == 4; }));
  EXPECT_EQ(arrived, (std::vector<uint64_t>{1, 2, 3, 4})) << "what has no memory still goes out";
  EXPECT_EQ(pair.a.sink.sent, (std::vector<SendToken>{2, 3}));
}

TEST(Shm, NothingLandsForAnAbandonedRank) {
  Pair pair;
  pair.connect();
  std::vector<std::byte> memory(1 << 20, std::byte{1});
  const wire::FrameHeader header{.communicator = 1, .destination = 7, .length = memory.size(), .key = 1};
  ASSERT_TRUE(pair.a.shm->send(2, header, memory, 1).ok());
  pair.b.sink.check_content = false;
  auto& from = pair.b.sink.froms[1];
  ASSERT_TRUE(run_until({&pair.b}, [&] { return from.arrived > 0; }));
  pair.b.shm->abandon(1, 7);
  const std::vector<std::byte> before = from.landing;
  const uint64_t arrived = from.arrived;
  pair.b.sink.when_frame = [](PeerId, const wire::FrameHeader& last) { EXPECT_EQ(last.key, 2U); };
  pair.a.next_key[2] = 2;
  ASSERT_TRUE(pair.a.send_new(2, 0).ok());
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return from.frames == 2; })) << "the empty ones at both ends";
  EXPECT_LT(arrived, memory.size());
  EXPECT_EQ(from.landing, before);
  EXPECT_EQ(pair.a.sink.sent.size(), 1U);
}

TEST(Shm, APeerThatIsGoneFailsAtOnce) {
  Node a(1);
  {
    Node b(2);
    a.meet(b);
  }
  ASSERT_TRUE(a.send_new(2, 8, 1).ok());
  ASSERT_TRUE(run_until({&a}, [&] { return !a.sink.failures.empty(); }));
  EXPECT_NE(a.sink.failures[2][0].text().find("its process is gone"), std::string::npos) << a.sink.failures[2][0].text();
  EXPECT_TRUE(a.sink.sent.empty());
}

TEST(Shm, WhatWasSentBeforeAnEndIsStillDelivered) {
  Node a(1);
  auto b = std::make_unique<Node>(2);
  a.meet(*b);
  b->meet(a);
  ASSERT_TRUE(b->send(1, {}).ok());
  ASSERT_TRUE(run_until({&a, b.get()}, [&] { return a.sink.froms[2].frames == 1; }));
  for (int i = 1; i <= 500; ++i) ASSERT_TRUE(b->send_new(1, 100, 1).ok());
  ASSERT_EQ(b->sink.sent.size(), 500U);
  b.reset();
  ASSERT_TRUE(run_until({&a}, [&] { return !a.sink.failures.empty(); }));
  EXPECT_EQ(a.sink.froms[2].frames, 501U);
  EXPECT_NE(a.sink.failures[2][0].text().find("rank 2 on host here: it has closed its connections"), std::string::npos)
      << a.sink.failures[2][0].text();
}

// --- reading in place --------------------------------------------------------------------------------------------------------

std::vector<std::byte> read_all(Node& reader, int owner, const wire::RemoteSpan& remote, bool* in_place) {
  std::vector<std::byte> out;
  std::vector<std::byte> bounce(4096);
  while (out.size() < remote.bytes) {
    const uint64_t bytes = std::min<uint64_t>(bounce.size(), remote.bytes - out.size());
    const auto seen = reader.shm->view(static_cast<PeerId>(owner), remote, out.size(), bytes, bounce);
    EXPECT_TRUE(seen.ok()) << seen.status().text();
    if (!seen.ok()) break;
    *in_place = seen->data() != bounce.data();
    out.insert(out.end(), seen->begin(), seen->end());
  }
  return out;
}

TEST(ShmOffer, NothingIsOfferedBeforeTheConnectionStands) {
  Pair pair;
  wire::RemoteSpan remote;
  const auto memory = payload_of(5, 10000);
  EXPECT_FALSE(pair.a.shm->offer(2, memory, remote));
  EXPECT_FALSE(pair.a.shm->offer(77, memory, remote));
}

TEST(ShmOffer, AnyMemoryIsReadBySingleCopy) {
  Pair pair;
  pair.connect();
  const auto memory = payload_of(5, 10000);
  for (auto [owner, reader] : {std::pair(&pair.a, &pair.b), std::pair(&pair.b, &pair.a)}) {
    wire::RemoteSpan remote;
    ASSERT_TRUE(owner->shm->offer(static_cast<PeerId>(reader->number), memory, remote)) << "process_vm_readv works on oneself";
    EXPECT_EQ(remote.segment, 0U);
    bool in_place = true;
    EXPECT_EQ(read_all(*reader, owner->number, remote, &in_place), memory);
    EXPECT_FALSE(in_place);
  }
}

TEST(ShmOffer, SegmentsAreReadWhereTheyLie) {
  Pair pair({.cma_disable = true});
  pair.connect();
  std::byte* memory = *pair.a.segments.allocate(50000);
  for (uint64_t i = 0; i < 50000; ++i) memory[i] = pattern(3, i);
  wire::RemoteSpan remote;
  ASSERT_TRUE(pair.a.shm->offer(2, {memory + 100, 20000}, remote));
  EXPECT_EQ(remote.segment, 1U);
  EXPECT_EQ(remote.offset, 100U);
  bool in_place = false;
  EXPECT_EQ(read_all(pair.b, 1, remote, &in_place), std::vector<std::byte>(memory + 100, memory + 20100));
  EXPECT_TRUE(in_place);
  ASSERT_TRUE(pair.a.shm->offer(2, {memory, 50000}, remote)) << "announced already";
  EXPECT_EQ(pair.b.shm->view(1, remote, 49999, 1, {})->front(), memory[49999]);

  ASSERT_TRUE(pair.a.segments.release(memory).ok());
  EXPECT_EQ(pair.b.shm->view(1, remote, 49999, 1, {})->front(), pattern(3, 49999)) << "the reader's mapping outlives the owner's";
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return !pair.b.shm->view(1, remote, 0, 1, {}).ok(); })) << "but not for ever";
}

TEST(ShmOffer, WithoutCmaMemoryIsPushed) {
  for (const bool owner_refuses : {true, false}) {
    Pair pair({.cma_disable = owner_refuses}, {.cma_disable = !owner_refuses});
    pair.connect();
    wire::RemoteSpan remote;
    const auto memory = payload_of(5, 10000);
    EXPECT_FALSE(pair.a.shm->offer(2, memory, remote));
    EXPECT_FALSE(pair.b.shm->offer(1, memory, remote));
    EXPECT_TRUE(pair.a.notices.empty()) << "asked for, so nothing to say";
  }
}

TEST(ShmOffer, NothingOutsideAnOfferIsRead) {
  Pair pair;
  pair.connect();
  std::byte* memory = *pair.a.segments.allocate(8192);
  wire::RemoteSpan remote;
  ASSERT_TRUE(pair.a.shm->offer(2, {memory, 8000}, remote));
  std::vector<std::byte> bounce(100);
  const auto view = [&](const wire::RemoteSpan& from, uint64_t offset, uint64_t bytes) {
    return pair.b.shm->view(1, from, offset, bytes, bounce).status().code();
  };
  EXPECT_EQ(view(remote, 0, 8000), Code::ok);
  EXPECT_EQ(view(remote, 1, 8000), Code::remote_error);
  EXPECT_EQ(view(remote, UINT64_MAX, 2), Code::remote_error);
  EXPECT_EQ(view({.bytes = UINT64_MAX, .segment = remote.segment, .offset = 0}, 0, 10), Code::remote_error);
  EXPECT_EQ(view({.bytes = 100, .segment = remote.segment, .offset = UINT64_MAX - 50}, 0, 100), Code::remote_error);
  EXPECT_EQ(view({.address = 0x10, .bytes = 100}, 0, 100), Code::remote_error) << "not mapped";
  EXPECT_EQ(view({.address = 0x10, .bytes = 1000}, 0, 101), Code::internal_error) << "more than the bounce holds";
}

// --- peers that break the rules ----------------------------------------------------------------------------------------------

/// A peer that holds the key and speaks the handshake, and then does what a test wants.
class Rogue {
 public:
  explicit Rogue(Node& victim) : victim_(victim), listener_(ShmSocket::listen("isthmus-test-rogue-" + std::to_string(getpid())).value()) {
    const std::string name = "isthmus-test-rogue-" + std::to_string(getpid());
    victim.meet(9, std::as_bytes(std::span(name.data(), name.size())));
    auto connected = ShmSocket::connect(std::string(reinterpret_cast<const char*>(blob().data()), blob().size()));
    EXPECT_TRUE(connected.ok() && *connected);
    socket = std::move(*connected);
    const wire::Hello hello{.communicator = 1, .purpose = wire::Purpose::data, .process = process_of(9)};
    socket->start(wire::Handshake::initiate(**Crypto::load(), hello, key_of(1), {}));
    EXPECT_TRUE(run_until({&victim}, [&] { return *socket->authenticate(); }));
  }
  /// Goes through an honest set-up.
  void set_up() {
    rings = RingPair::create(RingPair::kLeastBytes).value();
    send({.kind = LinkMessage::Kind::setup, .bytes = RingPair::kLeastBytes}, {rings.memory(), rings.memory()});
    EXPECT_TRUE(run_until({&victim_}, [&] {
      auto answer = socket->receive();
      return answer.ok() && *answer && (*answer)->kind == LinkMessage::Kind::accept;
    }));
  }
  void send(const LinkMessage& message, const std::vector<int>& fds = {}) { EXPECT_TRUE(*socket->send(message, fds)); }
  /// Waits until the victim has noticed.
  Status verdict() {
    EXPECT_TRUE(run_until({&victim_}, [&] { return !victim_.sink.failures.empty(); }));
    return victim_.sink.failures.empty() ? Status() : victim_.sink.failures[9].at(0);
  }

  std::optional<ShmSocket> socket;
  RingPair rings;

 private:
  [[nodiscard]] std::vector<std::byte> blob() const { return victim_.shm->local_blob(); }
  Node& victim_;
  Fd listener_;
};

TEST(ShmRogue, GarbageInTheRingFailsThePeerAndNothingElse) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    Node victim(1);
    Rogue rogue(victim);
    rogue.set_up();
    const Ring ring = rogue.rings.direction(0);
    for (int i = 0; i < 4096; ++i) ring.data[i] = static_cast<std::byte>(random());
    if (round % 2 == 0) {  // a plausible record with a garbage header
      std::memset(ring.data + 8, static_cast<int>(random()), static_cast<size_t>(round % 40));
      ring::word(ring.data).store(uint64_t{1} << 32 | random() % 20000);
    }
    const Status why = rogue.verdict();
    EXPECT_EQ(why.code(), Code::remote_error);
    EXPECT_NE(why.text().find("rank 9 on host here: its shared memory is not as we left it"), std::string::npos) << why.text();
  }
}

TEST(ShmRogue, FramesMustKeepToTheirLength) {
  const auto bytes = payload_of(0, 1000);
  const wire::FrameHeader header{.length = 1000};
  const wire::FrameHeader shorter{.length = 999};
  const std::vector<std::function<void(RingWriter&)>> crimes = {
      [&](RingWriter& out) { out.write(&shorter, bytes); },
      [&](RingWriter& out) { out.write(nullptr, bytes); },
      [&](RingWriter& out) { out.write(&header, std::span(bytes).first(500)), out.write(&header, bytes); },
      [&](RingWriter& out) { out.write(&header, std::span(bytes).first(500)), out.write(nullptr, std::span(bytes).first(501)); },
  };
  for (const auto& crime : crimes) {
    Node victim(1);
    Rogue rogue(victim);
    rogue.set_up();
    RingWriter out(rogue.rings.direction(0));
    crime(out);
    EXPECT_EQ(rogue.verdict().code(), Code::remote_error);
  }
}

TEST(ShmRogue, ConsumingTheFutureFailsThePeer) {
  Node victim(1);
  Rogue rogue(victim);
  rogue.set_up();
  rogue.rings.direction(1).control->head = uint64_t{1} << 50;
  const auto large = payload_of(0, 1 << 20);
  ASSERT_TRUE(victim.send(9, large).ok());
  EXPECT_NE(rogue.verdict().text().find("claims to have read"), std::string::npos);
}

TEST(ShmRogue, MessagesOutOfTurnOrWithForeignDescriptorsFailThePeer) {
  using Kind = LinkMessage::Kind;
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<std::pair<LinkMessage, std::vector<int>>> crimes = [&] {
    std::vector<std::pair<LinkMessage, std::vector<int>>> out;
    out.emplace_back(LinkMessage{.kind = Kind::accept}, std::vector{null.get()});
    out.emplace_back(LinkMessage{.kind = Kind::setup, .bytes = 1 << 16}, std::vector{null.get(), null.get()});
    out.emplace_back(LinkMessage{.kind = Kind::segment, .number = 1, .bytes = 4096}, std::vector{null.get()});
    out.emplace_back(LinkMessage{.kind = Kind::segment, .number = 1, .bytes = 4096}, std::vector<int>{});
    out.emplace_back(LinkMessage{.kind = Kind::confirm}, std::vector{null.get()});
    out.emplace_back(LinkMessage{.kind = static_cast<Kind>(77)}, std::vector<int>{});
    return out;
  }();
  for (const auto& [message, fds] : crimes) {
    Node victim(1);
    Rogue rogue(victim);
    rogue.set_up();
    rogue.send(message, fds);
    EXPECT_EQ(rogue.verdict().code(), Code::remote_error);
  }
}

TEST(ShmRogue, ASetUpThatIsNoneLeavesThePeerUnconnected) {
  Node victim(1);
  Rogue rogue(victim);
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  rogue.send({.kind = LinkMessage::Kind::setup, .bytes = 1 << 16}, {null.get(), null.get()});
  ASSERT_TRUE(run_until({&victim}, [&] { return !rogue.socket->receive().ok(); })) << "turned away";
  EXPECT_TRUE(victim.sink.failures.empty()) << "it may come back with better manners";
}

TEST(ShmRogue, StrangersDoNotDisturb) {
  Pair pair;
  pair.connect();
  const auto blob = pair.a.shm->local_blob();
  const std::string name(reinterpret_cast<const char*>(blob.data()), blob.size());
  std::vector<ShmSocket> strangers;
  for (int i = 0; i < 40; ++i) {
    auto socket = ShmSocket::connect(name);
    ASSERT_TRUE(socket.ok() && *socket);
    if (i % 2 == 0) {
      const std::string_view request = "GET / HTTP/1.1\r\nHost: a-long-enough-request.example.org\r\nAccept: */*\r\n\r\n";
      ASSERT_GT(::send((*socket)->fd(), request.data(), request.size(), MSG_NOSIGNAL), 0);
    }
    if (i % 4 != 1) strangers.push_back(std::move(**socket));
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.a.send_new(2, 100).ok());
    pair.a.poll();
    pair.b.poll();
  }
  ASSERT_TRUE(run_until({&pair.a, &pair.b}, [&] { return pair.b.sink.froms[1].frames == 101 && pair.a.notices.size() >= 20; }));
  EXPECT_NE(pair.a.notices[0].find("refused a connection from process"), std::string::npos) << pair.a.notices[0];
}

}  // namespace
}  // namespace isthmus::transport
