// SPDX-License-Identifier: Apache-2.0
// The engine with all ranks of a communicator in one process: results, flow control without credit, failures, reuse of memory.
#include "exec/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "exec/launch.h"
#include "plan/builder.h"
#include "plan/send_recv.h"
#include "transport/local/loopback.h"

namespace isthmus::exec {
namespace {

void emit_ring(const plan::Shape& shape, plan::Builder& b) {
  const plan::Group& g = shape.group;
  const auto ranks = static_cast<uint32_t>(g.size);
  b.split(ranks);
  const auto cell = [&](int32_t at) { return static_cast<uint32_t>(g.wrap(at)); };
  for (int32_t step = 0; step + 1 < g.size; ++step) {
    const uint32_t give = cell(g.position - step), take = cell(g.position - step - 1);
    b.send(g.next(), step == 0 ? b.in(give, give + 1) : b.out(give, give + 1));
    b.recv_reduce(g.previous(), b.out(take, take + 1), b.in(take, take + 1));
  }
  const uint32_t mine = cell(g.position + 1);
  if (g.size == 1) b.copy(b.out(0, 1), b.in(0, 1));
  b.complete(b.out(mine, mine + 1));
  for (int32_t step = 0; step + 1 < g.size; ++step) {
    const uint32_t give = cell(g.position + 1 - step), take = cell(g.position - step);
    b.send(g.next(), b.out(give, give + 1));
    b.recv(g.previous(), b.out(take, take + 1));
  }
}

// Everybody exchanges everything with everybody, in place: the kind of plan that needs staging.
void emit_exchange(const plan::Shape& shape, plan::Builder& b) {
  const plan::Group& g = shape.group;
  b.split(1);
  if (g.size == 1) b.copy(b.out(0, 1), b.in(0, 1));
  for (int32_t mask = 1; mask < g.size; mask *= 2) {
    const int32_t partner = g.position ^ mask;
    const plan::Chunk from = mask == 1 ? b.in(0, 1) : b.out(0, 1);
    b.send(partner, from);
    b.recv_reduce(partner, b.out(0, 1), from);
  }
  b.complete(b.out(0, 1));
}

constexpr plan::Algorithm kRing = {.name = "test_ring", .collective = Collective::allreduce, .emit = emit_ring};
constexpr plan::Algorithm kExchange = {
    .name = "test_exchange", .collective = Collective::allreduce, .needs = {.power_of_two = true}, .emit = emit_exchange};

class Job {
 public:
  explicit Job(int32_t ranks, Limits limits = {}, WatchLimits watch = {})
      : ranks_(ranks), engine_(limits, watch, target_, pool_), loopback_(engine_) {
    engine_.add_transport(loopback_);
    EXPECT_TRUE(loopback_.add_peer(0, {}).ok());
    const std::vector<transport::PeerId> peers(static_cast<size_t>(ranks), 0);
    const std::vector<transport::Transport*> transports(static_cast<size_t>(ranks), &loopback_);
    for (int32_t rank = 0; rank < ranks; ++rank) endpoints_.push_back(&engine_.open(7, rank, peers, transports));
  }

  void allreduce(Launch& launch, int32_t rank, const plan::Algorithm& algorithm, const float* in, float* out, uint64_t count) {
    plan::Shape shape{.collective = Collective::allreduce, .group = {.ranks = {}, .size = ranks_, .position = rank}, .in_place = in == out};
    auto plan = plan::build(algorithm, shape);
    ASSERT_TRUE(plan.ok()) << plan.status().text();
    Launch::Item& item = launch.add();
    item.endpoint = endpoints_[static_cast<size_t>(rank)];
    item.call.program = std::make_shared<const Program>(std::move(*plan));
    item.call.signature = {.collective = Collective::allreduce, .type = DataType::float32, .op = ReduceOp::sum, .count = count};
    item.call.in = reinterpret_cast<const std::byte*>(in);
    item.call.out = reinterpret_cast<std::byte*>(out);
  }

  void transfer(Launch& launch, int32_t rank, const std::vector<plan::Transfer>& transfers, const std::vector<void*>& buffers) {
    plan::Plan plan;
    plan::Binding binding;
    ASSERT_TRUE(plan::build_send_recv(rank, ranks_, transfers, plan, binding).ok());
    Launch::Item& item = launch.add();
    item.endpoint = endpoints_[static_cast<size_t>(rank)];
    item.call.program = std::make_shared<const Program>(std::move(plan));
    item.call.signature = {.collective = Collective::sendrecv, .type = DataType::uint8};
    for (size_t i = 0; i < transfers.size(); ++i) {
      item.user_buffers.push_back(static_cast<std::byte*>(buffers[i]));
      item.user_bytes.push_back(transfers[i].bytes);
      item.user_signatures.push_back({.collective = Collective::sendrecv, .type = DataType::uint8, .count = transfers[i].bytes});
    }
  }

  /// Polls until the launch is done; false if it is not after many polls that moved nothing.
  bool run(Launch& launch, TimeNs step_ns = 0) {
    launch.submit(engine_);
    return finish(launch, step_ns);
  }
  bool finish(Launch& launch, TimeNs step_ns = 0) {
    for (int idle = 0; idle < 10'000 && !launch.done(); ++idle) {
      now_ += step_ns;
      if (engine_.poll(now_)) idle = 0;
    }
    return launch.done();
  }

  int32_t ranks_;
  kernels::Target target_ = kernels::select_target();
  memory::Pool pool_;
  Engine engine_;
  transport::Loopback loopback_;
  std::vector<Endpoint*> endpoints_;
  TimeNs now_ = 0;
};

// Two ranks exchange four parts of their buffers, each by itself.
void emit_parts(const plan::Shape& shape, plan::Builder& b) {
  b.split(4);
  for (uint32_t cell = 0; cell < 4; ++cell) {
    b.send(1 - shape.group.position, b.in(cell, cell + 1));
    b.recv_reduce(1 - shape.group.position, b.out(cell, cell + 1), b.in(cell, cell + 1));
    b.complete(b.out(cell, cell + 1));
  }
}

// One rank, whose steps copy a cell each; the first cell's is written last.
void emit_copies(const plan::Shape& /*shape*/, plan::Builder& b) {
  b.split(4);
  for (uint32_t cell = 4; cell-- > 0;) {
    b.copy(b.out(cell, cell + 1), b.in(cell, cell + 1));
    b.complete(b.out(cell, cell + 1));
  }
}

constexpr plan::Algorithm kCopies = {.name = "test_copies", .collective = Collective::allreduce, .emit = emit_copies};
constexpr plan::Algorithm kParts = {.name = "test_parts", .collective = Collective::allreduce, .emit = emit_parts};

/// Passes everything on to another transport and keeps the ordinals of the messages that were pushed.
class Witness final : public transport::Transport {
 public:
  explicit Witness(transport::Transport& below) : below_(below) {}
  std::vector<uint32_t> pushed;

  [[nodiscard]] std::string_view name() const override { return "witness"; }
  [[nodiscard]] std::vector<std::byte> local_blob() const override { return {}; }
  Status add_peer(transport::PeerId, const transport::PeerInfo&) override { return {}; }
  void forget_key(uint64_t) override {}
  Status send(transport::PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload,
              transport::SendToken token) override {
    if (header.type == wire::FrameType::data) pushed.push_back(header.ordinal);
    return below_.send(peer, header, payload, token);
  }
  bool offer(transport::PeerId, std::span<const std::byte>, wire::RemoteSpan&) override { return false; }
  Result<std::span<const std::byte>> view(transport::PeerId peer, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                          std::span<std::byte> bounce) override {
    return below_.view(peer, remote, offset, bytes, bounce);
  }
  void abandon(uint64_t, int32_t) override {}
  bool poll(TimeNs) override { return false; }
  bool arm(std::vector<transport::Wait>&) override { return true; }
  void disarm() override {}

 private:
  transport::Transport& below_;
};

// Stopwatches for Job: every piece takes a second, or a nanosecond.
TimeNs watch_ns = 0;
TimeNs slow_watch() { return watch_ns += kSecondNs; }
TimeNs quick_watch() { return ++watch_ns; }
uint64_t streamed_bytes = 0;

TEST(Distance, ResultsGoPastTheCachesWhileReadersAreSlow) {
  constexpr uint64_t kCount = 100'003;
  for (const auto stopwatch : {&quick_watch, &slow_watch}) {
    Job job(4);
    job.target_.stream = [](void* dst, const void* src, size_t bytes) {
      streamed_bytes += bytes;
      std::memcpy(dst, src, bytes);
    };
    job.engine_.set_stopwatch(stopwatch);
    streamed_bytes = 0;
    for (int call = 0; call < 3; ++call) {
      std::vector<std::vector<float>> in(4), out(4, std::vector<float>(kCount));
      Launch launch;
      for (int32_t rank = 0; rank < 4; ++rank) {
        const auto at = static_cast<size_t>(rank);
        in[at].assign(kCount, static_cast<float>(rank + call));
        job.allreduce(launch, rank, kRing, in[at].data(), out[at].data(), kCount);
      }
      ASSERT_TRUE(job.run(launch));
      ASSERT_TRUE(launch.status().ok()) << launch.status().text();
      for (const auto& result : out) ASSERT_EQ(result, std::vector<float>(kCount, static_cast<float>(6 + 4 * call)));
    }
    EXPECT_EQ(streamed_bytes > 0, stopwatch == &slow_watch);
  }
}

TEST(Distance, LargeResultsAlwaysGoPastTheCaches) {
  for (const uint64_t count : {uint64_t{2} << 20, uint64_t{3} << 20}) {  // 8 and 12 MiB
    Job job(2);
    job.target_.stream = [](void* dst, const void* src, size_t bytes) {
      streamed_bytes += bytes;
      std::memcpy(dst, src, bytes);
    };
    streamed_bytes = 0;
    std::vector<std::vector<float>> in(2, std::vector<float>(count, 1.5F)), out(2, std::vector<float>(count));
    Launch launch;
    for (int32_t rank = 0; rank < 2; ++rank) {
      const auto at = static_cast<size_t>(rank);
      job.allreduce(launch, rank, kRing, in[at].data(), out[at].data(), count);
    }
    ASSERT_TRUE(job.run(launch));
    ASSERT_TRUE(launch.status().ok()) << launch.status().text();
    for (const auto& result : out) ASSERT_EQ(result, std::vector<float>(count, 3));
    EXPECT_EQ(streamed_bytes, count * sizeof(float) < (12 << 20) ? 0 : 2 * count * sizeof(float)) << "both results";
  }
}

class Allreduce : public testing::TestWithParam<std::tuple<const plan::Algorithm*, int32_t, uint64_t, bool>> {};

TEST_P(Allreduce, SumsOnEveryRank) {
  const auto [algorithm, ranks, count, in_place] = GetParam();
  for (const uint64_t offer_bytes : {uint64_t{1}, UINT64_MAX}) {  // everything read in place, everything pushed
    for (const uint64_t eager_bytes : {uint64_t{0}, uint64_t{1000}, uint64_t{256} << 10}) {
      Job job(ranks, {.eager_bytes = eager_bytes, .offer_bytes = offer_bytes, .piece_bytes = 4096, .inline_bytes = 64});
      std::vector<std::vector<float>> in, out;
      for (int32_t rank = 0; rank < ranks; ++rank) {
        in.emplace_back(count);
        for (uint64_t i = 0; i < count; ++i) in.back()[i] = static_cast<float>((rank + 1) * 1000 + static_cast<int32_t>(i % 97));
        out.emplace_back(count, -1.0F);
      }
      const auto inputs = in;
      Launch launch;
      for (int32_t rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<size_t>(rank);
        job.allreduce(launch, rank, *algorithm, in[r].data(), in_place ? in[r].data() : out[r].data(), count);
      }
      ASSERT_TRUE(job.run(launch)) << "hangs: offers from " << offer_bytes << ", credit " << eager_bytes;
      ASSERT_TRUE(launch.status().ok()) << launch.status().text();
      for (int32_t rank = 0; rank < ranks; ++rank) {
        const auto& result = in_place ? in[static_cast<size_t>(rank)] : out[static_cast<size_t>(rank)];
        for (uint64_t i = 0; i < count; ++i) {
          float sum = 0;
          for (const auto& input : inputs) sum += input[i];
          ASSERT_EQ(result[i], sum) << "rank " << rank << " element " << i;
        }
      }
      launch.clear();
      job.engine_.poll(0);
      EXPECT_LE(job.pool_.counters().lent_bytes, 4096U) << "only the bounce buffer stays lent";
    }
  }
}

const auto kCounts = testing::Values<uint64_t>(0, 1, 7, 1000, 30'011);
INSTANTIATE_TEST_SUITE_P(Ring, Allreduce,
                         testing::Combine(testing::Values(&kRing), testing::Values(1, 2, 3, 4, 8), kCounts, testing::Bool()));
INSTANTIATE_TEST_SUITE_P(Exchange, Allreduce,
                         testing::Combine(testing::Values(&kExchange), testing::Values(1, 2, 4, 8), kCounts, testing::Bool()));

TEST(Engine, ManyCallsOneAfterTheOther) {
  Job job(4);
  std::vector<std::vector<float>> data(4, std::vector<float>(64, 1.0F));
  for (int call = 0; call < 200; ++call) {
    Launch launch;
    for (int32_t rank = 0; rank < 4; ++rank) {
      auto* buffer = data[static_cast<size_t>(rank)].data();
      job.allreduce(launch, rank, kRing, buffer, buffer, 64);
    }
    ASSERT_TRUE(job.run(launch));
    for (auto& buffer : data) {
      for (float& x : buffer) {
        ASSERT_EQ(x, 4.0F);
        x = 1.0F;
      }
    }
  }
}

// A rank may be a call ahead: its frames wait until the call begins here.
TEST(Engine, FramesOfLaterCallsWait) {
  Job job(2);
  std::vector<float> a(100, 1), b(100, 2), c(100, 3), d(100, 4);
  Launch first, second;
  job.allreduce(first, 0, kExchange, a.data(), a.data(), 100);
  job.allreduce(first, 0, kExchange, c.data(), c.data(), 100);
  first.submit(job.engine_);
  for (int i = 0; i < 50; ++i) job.engine_.poll(0);
  EXPECT_FALSE(first.done());
  job.allreduce(second, 1, kExchange, b.data(), b.data(), 100);
  job.allreduce(second, 1, kExchange, d.data(), d.data(), 100);
  ASSERT_TRUE(job.run(second));
  ASSERT_TRUE(job.finish(first));
  EXPECT_EQ(a[99], 3.0F);
  EXPECT_EQ(d[0], 7.0F);
}

// A rank may have come, called and gone before another one of this process has opened its endpoint.
TEST(Engine, FramesOutliveARankThatIsFaster) {
  constexpr uint64_t kOther = 99;
  Job job(1);
  const std::vector<transport::PeerId> peers(3, 0);
  const std::vector<transport::Transport*> transports(3, &job.loopback_);
  const std::vector<std::byte> payload(10);
  const auto send = [&](int32_t source, int32_t destination, uint32_t sequence) {
    const wire::FrameHeader header{.type = wire::FrameType::data,
                                   .flags = wire::kEager,
                                   .communicator = kOther,
                                   .source = source,
                                   .destination = destination,
                                   .sequence = sequence,
                                   .length = payload.size()};
    ASSERT_TRUE(job.loopback_.send(0, header, payload, transport::kNoToken).ok());
    while (job.engine_.poll(0)) {
    }
  };
  Endpoint& fastest = job.engine_.open(kOther, 0, peers, transports);
  send(0, 1, 0);
  job.engine_.close(fastest);
  EXPECT_FALSE(job.engine_.has_ranks_of(kOther));
  send(2, 1, 0);
  send(2, 0, 0);  // too late
  const Endpoint& slowest = job.engine_.open(kOther, 1, peers, transports);
  EXPECT_TRUE(job.engine_.has_ranks_of(kOther));
  EXPECT_EQ(slowest.early_frames, 2U);
  EXPECT_EQ(job.engine_.counters().stray_frames, 1U);
}

TEST(Engine, SendsThatWaitedGoInPlanOrder) {
  Job job(2, {.eager_bytes = 1024});
  Witness witness(job.loopback_);
  job.endpoints_[0]->flows[1].transport = &witness;
  std::vector<float> a(4000, 1), b(4000, 2);
  Launch first, second;
  job.allreduce(first, 0, kParts, a.data(), a.data(), a.size());
  first.submit(job.engine_);
  for (int i = 0; i < 50; ++i) job.engine_.poll(0);
  EXPECT_TRUE(witness.pushed.empty()) << "no part fits the credit";
  job.allreduce(second, 1, kParts, b.data(), b.data(), b.size());
  ASSERT_TRUE(job.run(second));
  ASSERT_TRUE(job.finish(first));
  EXPECT_EQ(witness.pushed, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(a, std::vector<float>(a.size(), 3.0F));
  EXPECT_EQ(b, a);
}

TEST(Engine, LongWorkGoesInPlanOrderAndCallsTakeTurns) {
  Job job(1, {.piece_bytes = 1024, .inline_bytes = 64, .poll_bytes = 1024});
  Endpoint& other = job.engine_.open(8, 0, std::vector<transport::PeerId>{0}, std::vector<transport::Transport*>{&job.loopback_});
  const std::vector<float> in(4096, 1);  // four steps of four pieces each
  std::vector<float> first(in.size(), 0), second(in.size(), 0);
  Launch launch;
  job.allreduce(launch, 0, kCopies, in.data(), first.data(), in.size());
  job.endpoints_[0] = &other;
  job.allreduce(launch, 0, kCopies, in.data(), second.data(), in.size());
  launch.submit(job.engine_);
  const auto is_done = [](const std::vector<float>& out, size_t cell) { return out[1024 * (cell + 1) - 1] != 0; };
  for (size_t cell = 4; cell-- > 0;) {
    for (int piece = 0; piece < 2 * 4; ++piece) {
      EXPECT_FALSE(is_done(second, cell)) << cell << " after " << piece << " pieces";
      job.engine_.poll(0);
    }
    EXPECT_TRUE(is_done(first, cell) && is_done(second, cell)) << cell;
    EXPECT_TRUE(cell == 0 || first[1024 * (cell - 1)] == 0) << "the next step has not begun while this one had pieces left: " << cell;
  }
  EXPECT_TRUE(job.run(launch));
}

TEST(Engine, MismatchFailsAndSticks) {
  Job job(2);
  std::vector<float> a(100, 1), b(101, 2);
  Launch one, other;
  job.allreduce(one, 0, kExchange, a.data(), a.data(), 100);
  job.allreduce(other, 1, kExchange, b.data(), b.data(), 101);
  one.submit(job.engine_);
  ASSERT_TRUE(job.run(other, 100 * kMillisecondNs));
  ASSERT_TRUE(job.finish(one, 100 * kMillisecondNs));
  EXPECT_EQ(one.status().code(), Code::invalid_usage) << one.status().text();
  EXPECT_EQ(other.status().code(), Code::invalid_usage);
  Launch again;
  job.allreduce(again, 0, kExchange, a.data(), a.data(), 100);
  ASSERT_TRUE(job.run(again));
  EXPECT_EQ(again.status().code(), Code::invalid_usage) << "a failed communicator refuses every later call";
}

TEST(Engine, TimesOutNamingWhoIsMissing) {
  Job job(3, {}, {.warn_after_ns = kSecondNs, .operation_timeout_ns = 5 * kSecondNs});
  std::vector<std::string> warnings;
  job.engine_.on_warning = [&](const std::string& line) { warnings.push_back(line); };
  std::vector<float> a(10, 1), b(10, 1);
  Launch launch;
  job.allreduce(launch, 0, kRing, a.data(), a.data(), 10);
  job.allreduce(launch, 1, kRing, b.data(), b.data(), 10);
  ASSERT_TRUE(job.run(launch, kSecondNs / 4));
  EXPECT_EQ(launch.status().code(), Code::timeout);
  EXPECT_NE(launch.status().text().find('2'), std::string::npos) << launch.status().text();
  EXPECT_FALSE(warnings.empty());
}

// A program may compute for long between calls; that time is not the next call's.
TEST(Engine, TimeBetweenCallsDoesNotCount) {
  Job job(2, {}, {.warn_after_ns = kSecondNs, .operation_timeout_ns = 5 * kSecondNs});
  std::vector<std::string> warnings;
  job.engine_.on_warning = [&](const std::string& line) { warnings.push_back(line); };
  job.engine_.poll(0);
  std::vector<float> a(10, 1), b(10, 1);
  Launch early, late;
  job.allreduce(early, 0, kRing, a.data(), a.data(), 10);
  job.allreduce(late, 1, kRing, b.data(), b.data(), 10);
  early.submit(job.engine_);
  job.now_ = 100 * kSecondNs;
  job.engine_.poll(job.now_);
  ASSERT_TRUE(job.run(late));
  ASSERT_TRUE(job.finish(early));
  EXPECT_TRUE(early.status().ok()) << early.status().text();
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

// Sends and receives match in order, whatever groups the two sides made of them, even without any credit.
TEST(Engine, SendRecvMatchesAcrossGroupings) {
  for (const uint64_t eager_bytes : {uint64_t{0}, uint64_t{64} << 10}) {
    for (const uint64_t offer_bytes : {uint64_t{8} << 10, UINT64_MAX}) {
      Job job(2, {.eager_bytes = eager_bytes, .offer_bytes = offer_bytes});
      std::vector<uint8_t> first(10, 1), second(50'000, 2), third(1, 3);
      std::vector<uint8_t> got_first(10), got_second(50'000), got_third(1);
      Launch sends, recv1, recv2;
      job.transfer(sends, 0, {{1, true, 10}, {1, true, 50'000}, {1, true, 0}, {1, true, 1}},
                   {first.data(), second.data(), nullptr, third.data()});
      job.transfer(recv1, 1, {{0, false, 10}}, {got_first.data()});
      job.transfer(recv2, 1, {{0, false, 50'000}, {0, false, 0}, {0, false, 1}}, {got_second.data(), nullptr, got_third.data()});
      sends.submit(job.engine_);
      ASSERT_TRUE(job.run(recv1));
      ASSERT_TRUE(job.run(recv2));
      ASSERT_TRUE(job.finish(sends));
      EXPECT_TRUE(sends.status().ok()) << sends.status().text();
      EXPECT_EQ(got_first, first);
      EXPECT_EQ(got_second, second);
      EXPECT_EQ(got_third, third);
    }
  }
}

TEST(Engine, WarmCallsAllocateNothing) {
  Job job(2);
  std::vector<float> a(1 << 16, 1), b(1 << 16, 1);
  Launch launch;
  uint64_t before = 0;
  for (int call = 0; call < 20; ++call) {
    if (call == 5) before = job.pool_.counters().system_allocations;
    job.allreduce(launch, 0, kExchange, a.data(), a.data(), a.size() - static_cast<size_t>(call));
    job.allreduce(launch, 1, kExchange, b.data(), b.data(), b.size() - static_cast<size_t>(call));
    ASSERT_TRUE(job.run(launch));
    launch.clear();
  }
  EXPECT_EQ(job.pool_.counters().system_allocations, before);
}

}  // namespace
}  // namespace isthmus::exec
