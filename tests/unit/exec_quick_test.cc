// SPDX-License-Identifier: Apache-2.0
// The short way of small calls among engines of their own, joined by a wire that delays frames and refuses immediate ones by a seed: the
// results are those of the step machine wherever the short way is left, credit and numbers stay right, failures end it.
#include "exec/quick.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "collectives/registry.h"
#include "exec/engine.h"
#include "plan/builder.h"

namespace isthmus::exec {
namespace {

class Wire;

/// One engine's end: PeerId is the rank.
class End final : public transport::Transport {
 public:
  End(Wire& wire, transport::PeerId rank) : wire_(wire), rank_(rank) {}
  [[nodiscard]] std::string_view name() const override { return "wire"; }
  [[nodiscard]] std::vector<std::byte> local_blob() const override { return {}; }
  Status add_peer(transport::PeerId, const transport::PeerInfo&) override { return {}; }
  void forget_key(uint64_t) override {}
  Status send(transport::PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload,
              transport::SendToken token) override;
  bool try_send(transport::PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload) override;
  [[nodiscard]] uint64_t whole_bytes() const override { return 16 << 10; }
  bool offer(transport::PeerId, std::span<const std::byte>, wire::RemoteSpan&) override { return false; }
  Result<std::span<const std::byte>> view(transport::PeerId, const wire::RemoteSpan&, uint64_t, uint64_t, std::span<std::byte>) override {
    return internal_error("nothing is offered");
  }
  void abandon(uint64_t, int32_t) override {}
  bool poll(TimeNs now) override;
  bool glance(transport::PeerId peer) override;
  bool arm(std::vector<transport::Wait>&) override { return false; }
  void disarm() override {}

 private:
  Wire& wire_;
  transport::PeerId rank_;
};

class Wire {
 public:
  struct Frame {
    transport::PeerId from = 0;
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };
  explicit Wire(uint64_t seed) : dice(seed) {}
  [[nodiscard]] bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(dice) < probability; }

  std::mt19937_64 dice;
  double refuses = 0, delays = 0;
  double whole = 0;                       ///< how often frames are handed over in one piece
  std::vector<std::deque<Frame>> queues;  ///< by receiver
  std::vector<transport::FrameSink*> sinks;
};

Status End::send(transport::PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload, transport::SendToken token) {
  wire_.queues[peer].push_back({.from = rank_, .header = header, .payload = {payload.begin(), payload.end()}});
  if (token != transport::kNoToken) wire_.sinks[rank_]->on_sent(token);
  return {};
}

bool End::try_send(transport::PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload) {
  if (wire_.chance(wire_.refuses)) return false;
  return send(peer, header, payload, transport::kNoToken).ok();
}

bool End::poll(TimeNs) {
  auto& queue = wire_.queues[rank_];
  transport::FrameSink& sink = *wire_.sinks[rank_];
  bool moved = false;
  while (!queue.empty() && !wire_.chance(wire_.delays)) {
    const Wire::Frame frame = std::move(queue.front());
    queue.pop_front();
    moved = true;
    if (!frame.payload.empty() && wire_.chance(wire_.whole) && sink.on_whole(frame.from, frame.header, frame.payload)) continue;
    const std::span<std::byte> landing = sink.on_frame(frame.from, frame.header);
    if (landing.empty() && !frame.payload.empty()) sink.on_bytes(frame.from, frame.header, 0, frame.payload);
    if (!landing.empty()) {
      std::copy(frame.payload.begin(), frame.payload.end(), landing.begin());
      sink.on_landed(frame.from, frame.header, 0, frame.payload.size());
    }
  }
  return moved;
}

bool End::glance(transport::PeerId peer) {
  auto& queue = wire_.queues[rank_];
  return !queue.empty() && queue.front().from == peer && poll(0);
}

class Team {
 public:
  Team(int32_t ranks, uint64_t seed, const Limits& limits = {}) : wire(seed) {
    wire.queues.resize(static_cast<size_t>(ranks));
    for (int32_t rank = 0; rank < ranks; ++rank) {
      engines.push_back(std::make_unique<Engine>(limits, WatchLimits{}, kernels::select_target(), pool));
      ends.push_back(std::make_unique<End>(wire, static_cast<transport::PeerId>(rank)));
      engines.back()->add_transport(*ends.back());
      wire.sinks.push_back(engines.back().get());
    }
    std::vector<transport::PeerId> peers;
    peers.reserve(engines.size());
    for (int32_t rank = 0; rank < ranks; ++rank) peers.push_back(static_cast<transport::PeerId>(rank));
    for (size_t rank = 0; rank < engines.size(); ++rank) {
      const std::vector<transport::Transport*> transports(peers.size(), ends[rank].get());
      endpoints.push_back(&engines[rank]->open(7, static_cast<int32_t>(rank), peers, transports));
    }
  }

  Call call(const plan::Algorithm& algorithm, size_t rank, const std::vector<int32_t>& in, std::vector<int32_t>& out, Ticket& ticket,
            int32_t root = -1) {
    const bool in_place = in.data() == out.data();
    auto& program = programs[{&algorithm, rank, root, in_place}];
    if (program == nullptr) program = build(algorithm, rank, root, in_place);
    Call call;
    call.program = program;
    call.signature = {.collective = algorithm.collective, .type = DataType::int32, .root = root, .count = in.size()};
    call.kind_key = call.signature.kind_key(7, hash_text(algorithm.name));
    call.in = reinterpret_cast<const std::byte*>(in.data());
    call.out = reinterpret_cast<std::byte*>(out.data());
    call.ticket = &ticket;
    call.caller = &ticket;
    return call;
  }

  std::shared_ptr<const Program> build(const plan::Algorithm& algorithm, size_t rank, int32_t root, bool in_place) const {
    auto plan = plan::build(algorithm,
                            {.collective = algorithm.collective,
                             .group = {.ranks = {}, .size = static_cast<int32_t>(engines.size()), .position = static_cast<int32_t>(rank)},
                             .root = root,
                             .in_place = in_place});
    EXPECT_TRUE(plan.ok()) << plan.status().text();
    return std::make_shared<const Program>(std::move(*plan));
  }

  bool finish(std::span<const Ticket> tickets, TimeNs step_ns) {
    const auto done = [&] { return std::all_of(tickets.begin(), tickets.end(), [](const Ticket& ticket) { return ticket.done; }); };
    for (int polls = 0; polls < 10'000 && !done(); ++polls) {
      now += step_ns;
      for (const auto& engine : engines) engine->poll(now);
    }
    return done();
  }

  Wire wire;
  memory::Pool pool;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::unique_ptr<End>> ends;
  std::vector<Endpoint*> endpoints;
  std::map<std::tuple<const plan::Algorithm*, size_t, int32_t, bool>, std::shared_ptr<const Program>> programs;
  TimeNs now = 1;
};

const plan::Algorithm* algorithm(std::string_view name) { return collectives::find(Collective::allreduce, name); }

void sum(Team& team, const plan::Algorithm& how, size_t count, bool in_place, TimeNs step_ns) {
  const size_t ranks = team.engines.size();
  std::vector<std::vector<int32_t>> in(ranks), out(ranks, std::vector<int32_t>(count, -1));
  std::vector<Ticket> tickets(ranks);
  std::vector<int32_t> expected(count, 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < count; ++i) in[rank].push_back(static_cast<int32_t>(team.wire.dice()));
    for (size_t i = 0; i < count; ++i)
      expected[i] = static_cast<int32_t>(static_cast<uint32_t>(expected[i]) + static_cast<uint32_t>(in[rank][i]));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    Call call = team.call(how, rank, in[rank], in_place ? in[rank] : out[rank], tickets[rank]);
    ASSERT_TRUE(team.engines[rank]->submit(*team.endpoints[rank], call).ok());
    if (team.wire.chance(0.3)) team.engines[rank]->hurry();
    if (team.wire.chance(0.3)) team.engines[rank]->poll(team.now);  // the others' messages may come before their calls
  }
  ASSERT_TRUE(team.finish(tickets, step_ns)) << how.name << " on " << ranks << " ranks hangs";
  for (size_t rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(tickets[rank].status.ok()) << tickets[rank].status.text();
    ASSERT_EQ(in_place ? in[rank] : out[rank], expected) << how.name << " rank " << rank << " of " << ranks;
  }
}

TEST(Quick, GivesTheSameSumsWhereverItIsLeft) {
  for (const char* name : {"one_shot", "recursive_doubling", "halving_doubling", "ring", "direct"}) {
    for (const int32_t ranks : {1, 2, 3, 4, 7}) {
      for (uint64_t seed = 0; seed < 12; ++seed) {
        Team team(ranks, seed, {.eager_bytes = seed % 4 == 3 ? uint64_t{2048} : uint64_t{256} << 10});
        team.wire.refuses = seed % 3 * 0.2;
        team.wire.delays = seed % 2 * 0.7;
        team.wire.whole = seed % 3 * 0.5;
        for (int call = 0; call < 12; ++call) {
          const size_t count = call % 6 == 0 ? team.wire.dice() % 300 : 77;  // alike and different
          sum(team, *algorithm(name), count, call / 3 % 2 == 1, seed % 5 == 4 ? 30 * kMicrosecondNs : kMicrosecondNs);
          if (testing::Test::HasFatalFailure()) return;
        }
        EXPECT_LE(team.pool.counters().lent_bytes, static_cast<uint64_t>(ranks) * (256 << 10)) << "only bounce buffers stay lent";
      }
    }
  }
}

// Leaves of a tree run ahead: their messages of later calls wait beside those of the root's next one.
TEST(Quick, PeersMayRunAhead) {
  const plan::Algorithm* binomial = collectives::find(Collective::reduce, "binomial");
  for (const uint32_t ahead : {1U, 2U, 5U}) {
    Team team(3, 1);
    std::vector<std::vector<int32_t>> in(3, std::vector<int32_t>(8, 1)), out(3, std::vector<int32_t>(8));
    std::vector<Ticket> tickets(3 * ahead);
    const auto reduce = [&](size_t rank, uint32_t turn) {
      Call call = team.call(*binomial, rank, in[rank], out[rank], tickets[turn * 3 + rank], 0);
      ASSERT_TRUE(team.engines[rank]->submit(*team.endpoints[rank], call).ok());
    };
    reduce(1, 0);
    for (uint32_t turn = 0; turn < ahead; ++turn) reduce(2, turn);
    team.engines[0]->poll(team.now);
    for (uint32_t turn = 0; turn < ahead; ++turn) {
      if (turn > 0) reduce(1, turn);
      reduce(0, turn);
      ASSERT_TRUE(team.finish(std::span(tickets).first(3 * (turn + 1)), 1)) << "call " << turn << " of " << ahead;
      ASSERT_EQ(out[0], std::vector<int32_t>(8, 3));
    }
  }
}

// What the awaited message says is checked before it is used, whole or not.
TEST(Quick, WholeFramesAreCheckedLikeOthers) {
  Team team(2, 1);
  std::vector<int32_t> in(4, 1), out(4, 0);
  std::vector<int32_t> theirs(5, 2);
  Ticket ticket;
  Call call = team.call(*algorithm("one_shot"), 0, in, out, ticket);
  ASSERT_TRUE(team.engines[0]->submit(*team.endpoints[0], call).ok());
  ASSERT_EQ(team.wire.queues[1].size(), 1U);
  wire::FrameHeader good = team.wire.queues[1].front().header;  // what the peer's message is like
  std::swap(good.source, good.destination);
  const auto offered = [&](transport::PeerId from, const wire::FrameHeader& header) {
    return team.engines[0]->on_whole(from, header, std::as_bytes(std::span(theirs)).first(header.length));
  };
  auto changed = [&](auto&& change) {
    wire::FrameHeader header = good;
    change(header);
    return header;
  };
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.key ^= 1; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.length += 4; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.ordinal = 7; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.source = 0; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.source = 2; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.destination = 1; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.communicator = 8; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.sequence = 1; })));
  EXPECT_FALSE(offered(1, changed([](auto& header) { header.call_class = wire::CallClass::send_recv; })));
  EXPECT_FALSE(offered(0, good)) << "another process may not speak for rank 1";
  EXPECT_FALSE(ticket.done);
  EXPECT_EQ(out, std::vector<int32_t>(4, 0));
  EXPECT_TRUE(offered(1, good));
  EXPECT_FALSE(offered(1, good)) << "twice";
  team.engines[0]->hurry();
  team.engines[0]->poll(1);
  EXPECT_EQ(out, std::vector<int32_t>(4, 3));
}

TEST(Quick, IsTakenWhereNothingIsInTheWay) {
  Team team(2, 1);
  sum(team, *algorithm("one_shot"), 10, false, 1);
  EXPECT_EQ(team.pool.counters().lent_bytes, 0U) << "a run lends a bounce buffer";
}

TEST(Quick, BecomesARunThatIsWatched) {
  Team team(2, 1);
  std::vector<int32_t> in(4, 1), out(4);
  Ticket ticket;
  Call call = team.call(*algorithm("one_shot"), 0, in, out, ticket);
  ASSERT_TRUE(team.engines[0]->submit(*team.endpoints[0], call).ok());
  EXPECT_TRUE(team.endpoints[0]->quick);
  EXPECT_FALSE(team.endpoints[0]->idle());
  team.engines[0]->poll(1);
  team.engines[0]->poll(1 + 2 * Quick::kPatienceNs);
  EXPECT_FALSE(team.endpoints[0]->quick);
  EXPECT_FALSE(team.endpoints[0]->idle());
  EXPECT_NE(team.engines[0]->calls_text().find("allreduce"), std::string::npos);
  team.engines[0]->fail(*team.endpoints[0], remote_error("the end", 1));
  team.engines[0]->poll(2 + 2 * Quick::kPatienceNs);
  EXPECT_TRUE(ticket.done);
  EXPECT_EQ(ticket.status.text(), "the end");
}

TEST(Quick, FailureEndsIt) {
  Team team(2, 1);
  std::vector<int32_t> in(4, 1), out(4);
  Ticket ticket;
  Call call = team.call(*algorithm("one_shot"), 0, in, out, ticket);
  ASSERT_TRUE(team.engines[0]->submit(*team.endpoints[0], call).ok());
  team.engines[0]->fail(*team.endpoints[0], remote_error("the end", 1));
  team.engines[0]->poll(1);
  EXPECT_TRUE(ticket.done);
  EXPECT_EQ(ticket.status.text(), "the end");
  Ticket later;
  call.ticket = &later;
  EXPECT_FALSE(team.engines[0]->submit(*team.endpoints[0], call).ok());
}

struct Suspicion final : Observer {
  void on_failed(const Status&) override {}
  void on_suspect(int32_t rank, wire::CallClass, uint32_t) override { suspect = rank; }
  void on_submitted() override {}
  void on_stalled(const Run&) override {}
  void on_late(const Run&) override {}
  std::string answers(const Run&) override { return {}; }
  int32_t suspect = -1;
};

// A rank that makes another call is found out as it is by runs.
TEST(Quick, AnotherCallIsSuspect) {
  Suspicion suspicion;
  Team team(2, 1);
  team.endpoints[0]->observer = &suspicion;
  std::vector<int32_t> in(4, 1), out(4), more(5, 1), result(5);
  Ticket first, second;
  Call call = team.call(*algorithm("one_shot"), 0, in, out, first);
  Call other = team.call(*algorithm("one_shot"), 1, more, result, second);
  ASSERT_TRUE(team.engines[0]->submit(*team.endpoints[0], call).ok());
  ASSERT_TRUE(team.engines[1]->submit(*team.endpoints[1], other).ok());
  team.engines[0]->poll(1);
  EXPECT_EQ(suspicion.suspect, 1);
  team.endpoints[0]->observer = nullptr;
}

// A root that needs nothing of others is done at once, also if another rank's message of another call has been there before.
TEST(Quick, AnotherCallIsSuspectThoughItCameEarly) {
  const plan::Algorithm* broadcast = collectives::find(Collective::broadcast, "binomial");
  const plan::Algorithm* reduce = collectives::find(Collective::reduce, "binomial");
  for (const size_t elements : {size_t{4}, size_t{4000}}) {  // the short way and a run
    Suspicion suspicion;
    Team team(2, 1);
    team.endpoints[0]->observer = &suspicion;
    std::vector<int32_t> in(elements, 1), out(elements), more(elements, 1), result(elements);
    Ticket first, second;
    Call other = team.call(*reduce, 1, more, result, second, 0);
    ASSERT_TRUE(team.engines[1]->submit(*team.endpoints[1], other).ok());
    team.engines[0]->poll(1);
    EXPECT_EQ(suspicion.suspect, -1) << "it may be of a call to come";
    Call call = team.call(*broadcast, 0, in, out, first, 0);
    ASSERT_TRUE(team.engines[0]->submit(*team.endpoints[0], call).ok());
    for (TimeNs time = 2; time < 5; ++time) team.engines[0]->poll(time);
    EXPECT_EQ(suspicion.suspect, 1) << elements << " elements";
    EXPECT_TRUE(first.done);
    team.endpoints[0]->observer = nullptr;
  }
}

// A rank that has done its part may go; what it sent is used when its turn comes.
TEST(Quick, ARankThatHasDoneItsPartMayGo) {
  for (const size_t elements : {size_t{4}, size_t{4000}}) {  // the short way and a run
    Team team(3, 1);
    std::vector<std::vector<int32_t>> in(3, std::vector<int32_t>(elements, 1)), out(3, std::vector<int32_t>(elements));
    std::vector<Ticket> tickets(3);
    const auto submit = [&](size_t rank) {
      Call call = team.call(*algorithm("one_shot"), rank, in[rank], out[rank], tickets[rank]);
      ASSERT_TRUE(team.engines[rank]->submit(*team.endpoints[rank], call).ok());
    };
    submit(0);
    submit(2);
    team.engines[0]->poll(1);  // rank 2's message is here, and waits for that of rank 1
    const Status gone = remote_error("rank 2 is gone", 2);
    team.engines[0]->on_peer_failed(2, gone);
    team.engines[0]->condemn(*team.endpoints[0], 2, gone);
    team.engines[0]->poll(2);
    ASSERT_FALSE(tickets[0].done) << tickets[0].status.text();
    submit(1);
    for (TimeNs time = 3; time < 10 && !tickets[0].done; ++time) team.engines[0]->poll(time);
    ASSERT_TRUE(tickets[0].done);
    EXPECT_TRUE(tickets[0].status.ok()) << tickets[0].status.text();
    EXPECT_EQ(out[0], std::vector<int32_t>(elements, 3));
  }
}

// Calls like the one before differ in buffers and scalar at most; whatever else changes in between must not be mistaken for one.
TEST(Quick, CallsThatAreAlikeHaveTheirOwnBuffersAndScalars) {
  Team team(2, 1);
  const plan::Algorithm& how = *algorithm("one_shot");
  std::array<std::shared_ptr<const Program>, 2> programs;
  for (size_t rank = 0; rank < 2; ++rank) {
    auto plan = plan::build(
        how,
        {.collective = Collective::allreduce, .group = {.ranks = {}, .size = 2, .position = static_cast<int32_t>(rank)}, .map_in = true});
    ASSERT_TRUE(plan.ok()) << plan.status().text();
    programs[rank] = std::make_shared<const Program>(std::move(*plan));
  }
  std::deque<std::vector<int32_t>> kept;  // no two calls share memory
  for (int32_t turn = 1; turn <= 5; ++turn) {
    std::array<Ticket, 2> tickets;
    std::vector<int32_t>* first_out = nullptr;
    for (size_t rank = 0; rank < 2; ++rank) {
      const std::vector<int32_t>& in = kept.emplace_back(9, turn);
      std::vector<int32_t>& out = kept.emplace_back(9, -1);
      if (rank == 0) first_out = &out;
      Call call = team.call(how, rank, in, out, tickets[rank]);
      call.program = programs[rank];
      call.signature.scaled = call.scale_in = true;
      call.kind_key = call.signature.kind_key(7, 1);
      const int32_t scalar = turn * 10 + static_cast<int32_t>(rank);
      std::memcpy(call.scalar.bytes.data(), &scalar, sizeof(scalar));
      ASSERT_TRUE(team.engines[rank]->submit(*team.endpoints[rank], call).ok());
    }
    ASSERT_TRUE(team.finish(tickets, 1));
    EXPECT_EQ(*first_out, std::vector<int32_t>(9, turn * (20 * turn + 1))) << "turn " << turn;
  }
  EXPECT_EQ(team.engines[0]->counters().repeated_calls, 4U);
}

TEST(Quick, ACommunicatorThatIsMadeAnewIsAnother) {
  Team team(2, 1);
  const std::vector<transport::PeerId> peers = {0, 1};
  for (int turn = 0; turn < 4; ++turn) {
    sum(team, *algorithm("one_shot"), 50, false, 1);
    if (testing::Test::HasFatalFailure()) return;
    for (size_t rank = 0; rank < 2; ++rank) {
      const std::vector<transport::Transport*> transports(2, team.ends[rank].get());
      team.engines[rank]->close(*team.endpoints[rank]);
      team.endpoints[rank] = &team.engines[rank]->open(100 + static_cast<uint64_t>(turn), static_cast<int32_t>(rank), peers, transports);
    }
  }
  EXPECT_EQ(team.engines[0]->counters().repeated_calls, 0U);
}

TEST(Quick, TwoCommunicatorsMayAlternate) {
  Team team(2, 1);
  const std::vector<transport::PeerId> peers = {0, 1};
  std::vector<Endpoint*> others;
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::vector<transport::Transport*> transports(2, team.ends[rank].get());
    others.push_back(&team.engines[rank]->open(8, static_cast<int32_t>(rank), peers, transports));
  }
  for (int turn = 0; turn < 6; ++turn) {
    sum(team, *algorithm("one_shot"), 50, false, 1);
    if (testing::Test::HasFatalFailure()) return;
    std::swap(team.endpoints, others);
  }
}

// A peer that repeats a frame before the call begins must not make us copy more than there is room for.
TEST(Quick, RepeatedEarlyFramesStayWithinBounds) {
  for (const auto type : {wire::FrameType::data, wire::FrameType::offer}) {
    for (const bool longer : {false, true}) {
      Team team(2, 1);
      std::vector<int32_t> in(64, 1), out(64, -1), theirs(64, 2);
      Ticket ticket;
      Call call = team.call(*algorithm("one_shot"), 0, in, out, ticket);
      Call model = call;  // of the peer's first message
      ASSERT_TRUE(team.engines[1]->submit(*team.endpoints[1], model).ok());
      wire::FrameHeader header = team.wire.queues[0].front().header;
      team.wire.queues[0].clear();
      header.type = type;
      header.flags = type == wire::FrameType::data ? uint8_t{wire::kEager} : uint8_t{0};
      if (type == wire::FrameType::offer) header.length = wire::RemoteSpan::kBytes;
      for (uint64_t copy = 0; copy < 100; ++copy) {
        if (longer && copy == 1 && type == wire::FrameType::data) header.length *= 2;
        const std::span<std::byte> landing = team.engines[0]->on_frame(1, header);
        if (landing.empty()) break;  // out of credit
        std::memset(landing.data(), 0, landing.size());
        team.engines[0]->on_landed(1, header, 0, header.length);
      }
      (void)team.engines[0]->submit(*team.endpoints[0], call);
      for (TimeNs time = 1; time < 5; ++time) team.engines[0]->poll(time);
      team.engines[0]->fail(*team.endpoints[0], remote_error("the end", 1));
      team.engines[0]->poll(9);
    }
  }
}

}  // namespace
}  // namespace isthmus::exec
