// SPDX-License-Identifier: Apache-2.0
// The simulated network: bytes arrive in order and unharmed whatever happens, rates and latencies are as asked for, faults do what
// their names say, and one seed is one run.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "transport/sim/world.h"

namespace isthmus::transport {
namespace {

constexpr size_t kBlockBytes = 64 << 10;

/// Bytes `at`.. of every stream of this test: a pattern whose period is no power of two.
std::span<const std::byte> pattern(uint64_t at, size_t count) {
  constexpr size_t kPeriod = 65'521;
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> all(kPeriod + kBlockBytes);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(((i % kPeriod) * 0x9E3779B97F4A7C15ULL) >> 56);
    return all;
  }();
  return std::span(bytes).subspan(at % kPeriod, count);
}

/// Writes `total` bytes to one stream and reads them from another, as buffers allow.
struct Transfer {
  Stream* from = nullptr;
  Stream* to = nullptr;
  uint64_t total = 0;
  uint64_t written = 0, read = 0;
  TimeNs finished_at = 0;
  Status failure;

  [[nodiscard]] bool done() const { return read == total || !failure.ok(); }
  void poll(TimeNs now) {
    if (done()) return;
    for (size_t moved = 1; moved > 0 && written < total && failure.ok();) moved = write();
    for (size_t moved = 1; moved > 0 && !done();) moved = take();
    if (read == total) finished_at = now;
  }

 private:
  size_t write() {
    const Result<size_t> accepted = from->write(pattern(written, std::min<uint64_t>(kBlockBytes, total - written)));
    if (!accepted.ok()) return failure = accepted.status(), 0;
    written += *accepted;
    return *accepted;
  }
  size_t take() {
    std::vector<std::byte> block(kBlockBytes);
    const Result<size_t> got = to->read(block);
    if (!got.ok()) return failure = got.status(), 0;
    EXPECT_EQ(std::memcmp(block.data(), pattern(read, *got).data(), *got), 0) << "within " << *got << " bytes from " << read;
    read += *got;
    return *got;
  }
};

class Sim : public testing::Test {
 protected:
  SimWorld world{7};
  SimHost a = world.add_host("a"), b = world.add_host("b"), c = world.add_host("c");

  struct Pair {
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Stream> client, server;
  };
  static Pair connect(SimWorld& world, SimHost from, SimHost to, const StreamOptions& options = {}) {
    Pair pair;
    pair.listener = world.network(to).listen(world.address(to)).value();
    pair.client = world.network(from).connect(pair.listener->address(), options).value();
    while (pair.server == nullptr && world.step()) pair.server = pair.listener->accept().value();
    EXPECT_NE(pair.server, nullptr);
    return pair;
  }
  Pair connect(SimHost from, SimHost to) { return connect(world, from, to); }

  static void run(SimWorld& world, std::vector<Transfer*> transfers) {
    for (;;) {
      bool all = true;
      for (Transfer* transfer : transfers) {
        transfer->poll(world.now());
        all = all && transfer->done();
      }
      if (all || !world.step()) return;
    }
  }
  void run(std::vector<Transfer*> transfers) { run(world, std::move(transfers)); }
  void expect_within(double value, double expected, double tolerance) { EXPECT_NEAR(value / expected, 1.0, tolerance) << value; }
};

TEST_F(Sim, BytesTakeTheLatencyAndComeInOrder) {
  world.set_link(a, b, {.latency_ns = 3 * kMillisecondNs});
  Pair pair = connect(a, b);
  EXPECT_EQ(world.now(), 3 * kMillisecondNs);
  EXPECT_TRUE(pair.client->wants_write()) << "the answer is still on its way";
  world.step();
  EXPECT_FALSE(pair.client->wants_write());
  const TimeNs start = world.now();
  Transfer transfer{.from = pair.client.get(), .to = pair.server.get(), .total = 1000};
  run({&transfer});
  EXPECT_EQ(transfer.finished_at - start, 3 * kMillisecondNs);
  EXPECT_EQ(world.carried_bytes(a, b), 1000U);
  EXPECT_EQ(world.carried_bytes(b, a), 0U);
}

TEST_F(Sim, LinkRateIsHonouredAndSharedFairly) {
  world.set_link(a, b, {.latency_ns = 100 * kMicrosecondNs, .rate_bytes_per_s = 125e6});
  Pair one = connect(a, b), two = connect(a, b), back = connect(b, a);
  Transfer first{.from = one.client.get(), .to = one.server.get(), .total = 8 << 20};
  Transfer second{.from = two.client.get(), .to = two.server.get(), .total = 8 << 20};
  Transfer reverse{.from = back.client.get(), .to = back.server.get(), .total = 16 << 20};
  const TimeNs start = world.now();
  run({&first, &second, &reverse});
  const double seconds = (16 << 20) / 125e6;
  expect_within(static_cast<double>(second.finished_at - start) * 1e-9, seconds, 0.01);
  expect_within(static_cast<double>(first.finished_at - start) * 1e-9, seconds, 0.01);
  expect_within(static_cast<double>(reverse.finished_at - start) * 1e-9, seconds, 0.01);
}

TEST_F(Sim, CutIsSharedByItsPairs) {
  world.set_default_link({.latency_ns = 100 * kMicrosecondNs, .rate_bytes_per_s = 1e9});
  const std::vector<SimHost> site = {a, b}, other = {c};
  world.add_cut(site, other, 50e6);
  Pair from_a = connect(a, c), from_b = connect(b, c);
  Transfer first{.from = from_a.client.get(), .to = from_a.server.get(), .total = 4 << 20};
  Transfer second{.from = from_b.client.get(), .to = from_b.server.get(), .total = 4 << 20};
  const TimeNs start = world.now();
  run({&first, &second});
  expect_within(static_cast<double>(std::max(first.finished_at, second.finished_at) - start) * 1e-9, (8 << 20) / 50e6, 0.01);
}

TEST_F(Sim, WindowLimitsLongFatLinks) {
  world.set_link(a, b, {.latency_ns = 25 * kMillisecondNs, .rate_bytes_per_s = 1e9});
  Pair pair = connect(world, a, b, {.send_buffer_bytes = 1 << 20});
  Transfer transfer{.from = pair.client.get(), .to = pair.server.get(), .total = 16 << 20};
  const TimeNs start = world.now();
  run({&transfer});
  expect_within(16.0 * (1 << 20) / (static_cast<double>(transfer.finished_at - start) * 1e-9), (1 << 20) / 0.05, 0.1);
}

TEST_F(Sim, WriterFeelsAReaderWhoDoesNotRead) {
  Pair pair = connect(a, b);
  world.run_until(kSecondNs);
  std::vector<std::byte> block(1 << 20);
  uint64_t accepted = 0;
  for (int i = 0; i < 100; ++i) {
    accepted += *pair.client->write(block);
    world.run_until(world.now() + 10 * kMillisecondNs);
  }
  EXPECT_LT(accepted, 16U << 20);
  EXPECT_TRUE(pair.client->wants_write());
  while (*pair.server->read(block) > 0) {
  }
  world.run_until(world.now() + kSecondNs);
  EXPECT_GT(*pair.client->write(block), 0U) << "reading opens the window again";
}

TEST_F(Sim, StreamsOfAPairOvertakeEachOther) {
  world.set_link(a, b, {.latency_ns = kMillisecondNs, .jitter_ns = 5 * kMillisecondNs});
  Pair one = connect(a, b), two = connect(a, b);
  world.run_until(kSecondNs);
  int overtaken = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::byte> block(100);
    ASSERT_EQ(*one.client->write(block), 100U);
    ASSERT_EQ(*two.client->write(block), 100U);
    size_t got_first = 0, got_second = 0;
    while (got_first == 0 && got_second == 0 && world.step()) {
      got_first = *one.server->read(block);
      got_second = *two.server->read(block);
    }
    if (got_first == 0) ++overtaken;
    world.run_until(world.now() + kSecondNs);
    (void)one.server->read(block);
    (void)two.server->read(block);
  }
  EXPECT_GT(overtaken, 5);
  EXPECT_LT(overtaken, 35);
}

TEST_F(Sim, LossDelaysButKeepsOrder) {
  world.set_link(a, b, {.latency_ns = 5 * kMillisecondNs, .jitter_ns = kMillisecondNs, .rate_bytes_per_s = 10e6, .loss = 0.01});
  Pair pair = connect(a, b);
  Transfer transfer{.from = pair.client.get(), .to = pair.server.get(), .total = 2 << 20};
  const TimeNs start = world.now();
  run({&transfer});
  EXPECT_TRUE(transfer.failure.ok()) << transfer.failure.text();
  EXPECT_EQ(transfer.read, 2U << 20);
  EXPECT_GT(transfer.finished_at - start, 215 * kMillisecondNs) << "0.21 s without loss";
}

TEST_F(Sim, BrokenStreamsFailOnBothEnds) {
  world.set_link(a, b, {.break_chance = 1});
  Pair pair = connect(a, b);
  Transfer transfer{.from = pair.client.get(), .to = pair.server.get(), .total = 1000};
  run({&transfer});
  EXPECT_EQ(transfer.failure.code(), Code::remote_error);
  EXPECT_NE(transfer.failure.text().find("Connection reset by peer"), std::string::npos) << transfer.failure.text();
  world.run_until(world.now() + kSecondNs);
  std::vector<std::byte> block(10);
  EXPECT_FALSE(pair.client->write(block).ok());
  EXPECT_FALSE(pair.server->write(block).ok());
}

TEST_F(Sim, EqualSeedsGiveEqualRuns) {
  const auto hash_of = [](uint64_t seed) {
    SimWorld sim(seed);
    const SimHost from = sim.add_host("from"), to = sim.add_host("to");
    sim.set_link(from, to, {.latency_ns = kMillisecondNs, .jitter_ns = kMillisecondNs, .rate_bytes_per_s = 20e6, .loss = 0.01});
    Pair pair = connect(sim, from, to), other = connect(sim, from, to);
    sim.at(10 * kMillisecondNs, [&] { sim.clog(from, to, 5 * kMillisecondNs); });
    Transfer one{.from = pair.client.get(), .to = pair.server.get(), .total = 1 << 20};
    Transfer two{.from = other.server.get(), .to = other.client.get(), .total = 1 << 20};
    run(sim, {&one, &two});
    EXPECT_TRUE(one.done() && two.done());
    return sim.trace_hash();
  };
  EXPECT_EQ(hash_of(1), hash_of(1));
  EXPECT_NE(hash_of(1), hash_of(2));
}

TEST_F(Sim, ClogHoldsBytesForAWhile) {
  Pair pair = connect(a, b);
  world.run_until(kSecondNs);
  world.clog(a, b, 2 * kSecondNs);
  Transfer forth{.from = pair.client.get(), .to = pair.server.get(), .total = 1 << 20};
  Transfer back{.from = pair.server.get(), .to = pair.client.get(), .total = 1 << 20};
  run({&forth, &back});
  EXPECT_GE(forth.finished_at, 3 * kSecondNs);
  EXPECT_LT(forth.finished_at, 3 * kSecondNs + 100 * kMillisecondNs);
  EXPECT_LT(back.finished_at, kSecondNs + 100 * kMillisecondNs) << "the other direction is free";
}

TEST_F(Sim, PartitionHealsWithNothingLost) {
  world.set_default_link({.latency_ns = kMillisecondNs, .rate_bytes_per_s = 100e6});
  Pair across = connect(a, c), inside = connect(a, b);
  Transfer crossing{.from = across.client.get(), .to = across.server.get(), .total = 20 << 20};
  Transfer staying{.from = inside.client.get(), .to = inside.server.get(), .total = 20 << 20};
  const std::vector<SimHost> side = {a, b};
  world.at(50 * kMillisecondNs, [&] { world.partition(side); });
  world.at(5 * kSecondNs, [&] { world.heal(); });
  run({&crossing, &staying});
  EXPECT_TRUE(crossing.failure.ok()) << crossing.failure.text();
  EXPECT_GT(crossing.finished_at, 5 * kSecondNs);
  EXPECT_LT(crossing.finished_at, 5 * kSecondNs + 400 * kMillisecondNs);
  EXPECT_LT(staying.finished_at, 300 * kMillisecondNs);
}

TEST_F(Sim, ConnectAcrossAPartitionWaitsForItsEnd) {
  const std::vector<SimHost> side = {a};
  world.partition(side);
  std::unique_ptr<Listener> listener = world.network(b).listen(world.address(b)).value();
  std::unique_ptr<Stream> client = world.network(a).connect(listener->address(), {}).value();
  world.run_until(10 * kSecondNs);
  EXPECT_TRUE(client->wants_write());
  world.heal();
  world.run_until(40 * kSecondNs);
  EXPECT_FALSE(client->wants_write());
  EXPECT_NE(listener->accept().value(), nullptr);
}

TEST_F(Sim, SilentStreamsTimeOutWhenAskedTo) {
  Pair pair = connect(world, a, b, {.user_timeout_ns = 3 * kSecondNs});
  world.run_until(kSecondNs);
  world.crash(b, SimCrash::vanished);
  std::vector<std::byte> block(100);
  ASSERT_EQ(*pair.client->write(block), 100U);
  world.run_until(3 * kSecondNs);
  EXPECT_TRUE(pair.client->read(block).ok()) << "a host that vanishes says nothing";
  world.run_until(5 * kSecondNs);
  const Status late = pair.client->read(block).status();
  EXPECT_EQ(late.code(), Code::remote_error);
  EXPECT_NE(late.text().find("timed out"), std::string::npos) << late.text();
  EXPECT_FALSE(pair.server->write(block).ok()) << "the vanished host's own calls fail";
}

TEST_F(Sim, CloseArrivesAfterTheBytes) {
  Pair pair = connect(a, b);
  world.run_until(kSecondNs);
  const std::string last = "last words";
  ASSERT_EQ(*pair.client->write(as_bytes(last)), last.size());
  pair.client.reset();
  world.run_until(2 * kSecondNs);
  std::vector<std::byte> block(100);
  EXPECT_EQ(*pair.server->read(block), last.size());
  const Status end = pair.server->read(block).status();
  EXPECT_EQ(end.code(), Code::remote_error);
  EXPECT_NE(end.text().find("closed by peer"), std::string::npos) << end.text();
}

TEST_F(Sim, KilledHostsResetAndRefuse) {
  Pair pair = connect(a, b);
  const Address door = pair.listener->address();
  std::vector<std::byte> block(100);
  world.run_until(kSecondNs);
  ASSERT_EQ(*pair.client->write(block), 100U);
  world.run_until(2 * kSecondNs);
  world.crash(b, SimCrash::killed);
  EXPECT_FALSE(world.runs(b));
  world.run_until(3 * kSecondNs);
  EXPECT_NE(pair.client->read(block).status().text().find("reset by peer"), std::string::npos) << "it died with unread bytes";
  std::unique_ptr<Stream> late = world.network(a).connect(door, {}).value();
  world.run_until(4 * kSecondNs);
  EXPECT_NE(late->write(block).status().text().find("Connection refused"), std::string::npos);
  EXPECT_FALSE(world.network(b).listen(world.address(b)).ok());
}

TEST_F(Sim, PausedHostsKeepTheirKernel) {
  Pair pair = connect(a, b);
  world.run_until(kSecondNs);
  world.pause(b);
  EXPECT_FALSE(world.runs(b));
  std::vector<std::byte> block(100);
  ASSERT_EQ(*pair.client->write(block), 100U);
  world.run_until(2 * kSecondNs);
  EXPECT_EQ(world.carried_bytes(a, b), 100U);
  world.resume(b);
  EXPECT_TRUE(world.runs(b));
  EXPECT_EQ(*pair.server->read(block), 100U);
}

TEST_F(Sim, AddressesBehaveLikeAHosts) {
  EXPECT_EQ(world.network(a).local_addresses().value(), std::vector<Address>{world.address(a)});
  EXPECT_NE(world.address(a), world.address(b));
  std::unique_ptr<Listener> listener = world.network(a).listen(world.address(a)).value();
  EXPECT_FALSE(world.network(a).listen(listener->address()).ok()) << "taken";
  EXPECT_FALSE(world.network(a).listen(world.address(b)).ok()) << "another host's";
  EXPECT_FALSE(world.network(a).connect(parse_address("192.0.2.1:5").value(), {}).ok()) << "nobody's";
}

}  // namespace
}  // namespace isthmus::transport
