// SPDX-License-Identifier: Apache-2.0
// control.h: deaths, farewells, aborts and messages over a star in memory and in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "bootstrap/control.h"
#include "bootstrap/control_messages.h"
#include "memory_network.h"

namespace isthmus::bootstrap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryStream;
using testing::Pipe;

constexpr ControlOptions kOptions = {.heartbeat_ns = kSecondNs, .peer_timeout_ns = 10 * kSecondNs};

/// Writes down what it is told: "dead 2: closed by peer".
struct Witness final : ControlSink {
  std::vector<std::string> events;
  std::function<void()> on_event = [] {};

  void on_dead(int32_t rank, const std::string& why) override { note("dead " + std::to_string(rank) + ": " + why); }
  void on_abort(int32_t rank, const std::string& text) override { note("abort " + std::to_string(rank) + ": " + text); }
  void on_left(int32_t rank) override { note("left " + std::to_string(rank)); }
  void on_message(int32_t from, std::span<const std::byte> body) override {
    note("message " + std::to_string(from) + ": " + std::string(reinterpret_cast<const char*>(body.data()), body.size()));
  }
  void on_unwatched(const std::string& why) override { note("unwatched: " + why); }
  void note(std::string event) {
    events.push_back(std::move(event));
    on_event();
  }
};

struct Star {
  TimeNs now = 500 * kSecondNs;
  std::vector<std::shared_ptr<Pipe>> pipes;
  std::vector<std::unique_ptr<Witness>> witnesses;
  std::vector<std::unique_ptr<ControlMember>> members;
  std::unique_ptr<ControlHub> hub;
  Logger log = Logger::silent();

  explicit Star(int32_t ranks, int32_t hub_rank = 0, int32_t absent = -1) {
    std::vector<std::optional<Link>> links;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      pipes.push_back(std::make_shared<Pipe>());
      witnesses.push_back(std::make_unique<Witness>());
      Link mine(std::make_unique<MemoryStream>(pipes.back(), 0, testing::address_of(1, 1)), 1 << 20);
      members.push_back(std::make_unique<ControlMember>(std::move(mine), rank, ranks, hub_rank, kOptions, *witnesses.back(), now));
      links.emplace_back();
      if (rank != absent) links.back().emplace(std::make_unique<MemoryStream>(pipes.back(), 1, testing::address_of(2, 2)), 1 << 20);
    }
    hub = std::make_unique<ControlHub>(std::move(links), kOptions, log, now);
  }

  ControlMember& member(int32_t rank) { return *members[static_cast<size_t>(rank)]; }
  std::vector<std::string>& events(int32_t rank) { return witnesses[static_cast<size_t>(rank)]->events; }
  void kill(int32_t rank) { members[static_cast<size_t>(rank)].reset(); }

  void poll() {
    for (int round = 0; round < 3; ++round) {  // there, through, and back
      for (auto& each : members)
        if (each) each->poll(now);
      if (hub) hub->poll(now);
    }
    for (auto& each : members)
      if (each) each->poll(now);
  }
  void pass(TimeNs duration, TimeNs step = 250 * kMillisecondNs) {
    for (const TimeNs end = now + duration; now < end; now += step) poll();
  }
};

TEST(Control, QuietRanksStayAlive) {
  Star star(3);
  star.pass(120 * kSecondNs);
  for (int32_t rank = 0; rank < 3; ++rank) EXPECT_THAT(star.events(rank), IsEmpty());
  EXPECT_FALSE(star.hub->finished());
  EXPECT_LE(star.hub->due(), star.now + kSecondNs) << "the next heartbeat";
  EXPECT_LE(star.member(1).due(), star.now + kSecondNs);
}

TEST(Control, DeathIsToldToAllOthersAtOnce) {
  Star star(4);
  star.pass(kSecondNs);
  star.kill(2);
  star.poll();
  for (const int32_t rank : {0, 1, 3}) EXPECT_THAT(star.events(rank), ElementsAre(HasSubstr("dead 2: closed by peer"))) << rank;
  star.pass(30 * kSecondNs);
  EXPECT_EQ(star.events(0).size(), 1u) << "once";
}

TEST(Control, SeveralDeathsAreAllTold) {
  Star star(4);
  star.kill(1);
  star.kill(3);
  star.poll();
  EXPECT_THAT(star.events(0), ElementsAre(HasSubstr("dead 1"), HasSubstr("dead 3")));
  EXPECT_THAT(star.events(2), ElementsAre(HasSubstr("dead 1"), HasSubstr("dead 3")));
}

TEST(Control, RankLostDuringTheRendezvousIsDeadFromTheStart) {
  Star star(3, 0, 1);
  star.kill(1);
  star.poll();
  EXPECT_THAT(star.events(0), ElementsAre(HasSubstr("dead 1: it went away while the communicator formed")));
  EXPECT_THAT(star.events(2), ElementsAre(HasSubstr("dead 1")));
}

TEST(Control, SilenceBeyondTheLimitIsDeath) {
  Star star(3);
  auto stopped = std::move(star.members[1]);  // exists, does not run
  star.pass(9 * kSecondNs);
  EXPECT_THAT(star.events(0), IsEmpty());
  star.pass(2 * kSecondNs);
  EXPECT_THAT(star.events(0), ElementsAre(HasSubstr("dead 1: silent for 10 s")));
  stopped->poll(star.now);  // it wakes up and learns what the others think
  EXPECT_THAT(star.events(1), ::testing::Contains(HasSubstr("dead 1: silent for 10 s")));
  EXPECT_TRUE(stopped->finished());
  EXPECT_THAT(star.events(1), ::testing::Not(::testing::Contains(HasSubstr("dead 0"))));
}

TEST(Control, PauseWithinTheLimitIsNoDeath) {
  Star star(3);
  for (int32_t paused : {0, 1}) {
    auto stopped = std::move(star.members[static_cast<size_t>(paused)]);
    star.pass(8 * kSecondNs);
    star.members[static_cast<size_t>(paused)] = std::move(stopped);
    star.pass(kSecondNs);
  }
  auto hub = std::move(star.hub);
  star.pass(8 * kSecondNs);
  star.hub = std::move(hub);
  star.pass(5 * kSecondNs);
  for (int32_t rank = 0; rank < 3; ++rank) EXPECT_THAT(star.events(rank), IsEmpty());
}

TEST(Control, FarewellIsNoDeath) {
  Star star(3);
  star.member(1).leave();
  star.poll();
  EXPECT_TRUE(star.member(1).finished());
  star.kill(1);
  star.pass(30 * kSecondNs);
  EXPECT_THAT(star.events(0), ElementsAre("left 1"));
  EXPECT_THAT(star.events(2), ElementsAre("left 1"));
  EXPECT_THAT(star.events(1), IsEmpty());
  star.member(0).leave();
  star.member(2).leave();
  star.poll();
  EXPECT_TRUE(star.hub->finished());
  EXPECT_EQ(star.hub->due(), kNever);
}

TEST(Control, FarewellCountsEvenIfTheHubWritesFirst) {
  Star star(3);
  star.pass(kSecondNs);
  star.member(1).leave();
  star.member(1).poll(star.now);
  star.kill(1);  // closed at once, before the hub has read the farewell
  star.member(0).abort("x");
  star.member(0).poll(star.now);
  star.poll();
  EXPECT_THAT(star.events(2), ::testing::UnorderedElementsAre("left 1", "abort 0: x"));
}

TEST(Control, FarewellToADeadHubEnds) {
  Star star(2);
  star.member(1).leave();
  auto hub = std::move(star.hub);  // hangs
  star.pass(1500 * kMillisecondNs);
  EXPECT_TRUE(star.member(1).finished());
  EXPECT_EQ(star.member(1).send(0, {}).code(), Code::invalid_usage);
}

TEST(Control, AbortReachesAllOthersOnce) {
  Star star(3);
  star.member(1).abort("enough");
  star.member(1).abort("again");
  star.poll();
  star.pass(3 * kSecondNs);
  EXPECT_THAT(star.events(0), ElementsAre("abort 1: enough"));
  EXPECT_THAT(star.events(2), ElementsAre("abort 1: enough"));
  EXPECT_THAT(star.events(1), IsEmpty());
  star.member(0).abort(std::string(5000, 'x'));
  star.poll();
  EXPECT_EQ(star.events(2).back().size(), std::string("abort 0: ").size() + kMaxControlTextBytes);
}

TEST(Control, MessagesAreCarriedInOrder) {
  Star star(3);
  EXPECT_TRUE(star.member(0).send(2, as_bytes("one")).ok());
  EXPECT_TRUE(star.member(0).send(2, as_bytes("two")).ok());
  EXPECT_TRUE(star.member(1).send(1, as_bytes("self")).ok());
  star.poll();
  EXPECT_THAT(star.events(2), ElementsAre("message 0: one", "message 0: two"));
  EXPECT_THAT(star.events(1), ElementsAre("message 1: self"));
  EXPECT_EQ(star.member(0).send(3, {}).code(), Code::invalid_argument);
  EXPECT_EQ(star.member(0).send(-1, {}).code(), Code::invalid_argument);
  EXPECT_EQ(star.member(0).send(1, std::vector<std::byte>(kMaxControlBytes + 1)).code(), Code::invalid_argument);
  EXPECT_TRUE(star.member(0).send(1, std::vector<std::byte>(kMaxControlBytes)).ok());
  star.kill(2);
  EXPECT_TRUE(star.member(0).send(2, as_bytes("to nobody")).ok());
  star.poll();
  EXPECT_THAT(star.events(0), ElementsAre(HasSubstr("dead 2")));
}

TEST(Control, SinkMayAnswerFromWithinAnEvent) {
  Star star(3);
  star.witnesses[2]->on_event = [&] {
    const bool first = star.events(2).size() == 1;
    EXPECT_TRUE(!first || star.member(2).send(0, as_bytes("got it")).ok());
  };
  EXPECT_TRUE(star.member(0).send(2, as_bytes("hello")).ok());
  star.poll();
  EXPECT_THAT(star.events(0), ElementsAre("message 2: got it"));
  star.witnesses[1]->on_event = [&] { star.member(1).leave(); };
  star.member(0).abort("a");
  star.poll();
  EXPECT_TRUE(star.member(1).finished());
}

TEST(Control, SlowReaderLosesMessagesButNoEvents) {
  Star star(3);
  star.pipes[2]->capacity = 1000;
  auto slow = std::move(star.members[2]);
  const std::vector<std::byte> body(kMaxControlBytes);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(star.member(0).send(2, body).ok());
    star.member(0).poll(star.now);
    star.hub->poll(star.now);
  }
  EXPECT_GT(star.hub->dropped_messages(), 20u);
  star.kill(1);
  star.hub->poll(star.now);
  for (int i = 0; i < 20'000 && (star.events(2).empty() || star.events(2).back().substr(0, 6) != "dead 1"); ++i) {
    slow->poll(star.now);
    star.hub->poll(star.now);
  }
  EXPECT_THAT(star.events(2).back(), HasSubstr("dead 1"));
}

TEST(Control, DeathOfTheHubsRankIsSeenByAll) {
  Star star(3);
  star.pass(kSecondNs);
  star.kill(0);
  star.hub.reset();  // one process
  star.poll();
  EXPECT_THAT(star.events(1), ElementsAre(HasSubstr("dead 0: closed by peer")));
  EXPECT_THAT(star.events(2), ElementsAre(HasSubstr("dead 0")));
  EXPECT_TRUE(star.member(1).finished());
  star.member(1).abort("alone");  // does nothing, and does not fail
  star.pass(kSecondNs);
}

TEST(Control, SilentHubIsDeath) {
  Star star(2);
  auto hub = std::move(star.hub);
  star.pass(11 * kSecondNs);
  EXPECT_THAT(star.events(1), ElementsAre(HasSubstr("dead 0: silent for 10 s")));
}

TEST(Control, HubThatLeftFirstIsNoDeath) {
  Star star(3);
  star.member(0).leave();
  star.poll();
  star.kill(0);
  star.hub.reset();
  star.poll();
  EXPECT_THAT(star.events(1), ElementsAre("left 0", HasSubstr("unwatched: rank 0")));
}

TEST(Control, HubWithoutRankMayGo) {
  Star star(2, -1);
  star.hub.reset();
  star.poll();
  EXPECT_THAT(star.events(0), ElementsAre(HasSubstr("unwatched: the process that made the communicator's id")));
  EXPECT_THAT(star.events(1), ElementsAre(HasSubstr("unwatched")));
}

TEST(Control, NonsenseFromARankIsItsDeath) {
  struct Case {
    uint8_t type;
    int32_t rank;
    size_t bytes;
  };
  for (const Case& c :
       {Case{99, 0, 0}, Case{1, 0, 0}, Case{static_cast<uint8_t>(ControlType::dead), 2, 1},
        Case{static_cast<uint8_t>(ControlType::message), 3, 1}, Case{static_cast<uint8_t>(ControlType::message), -1, 1},
        Case{static_cast<uint8_t>(ControlType::left), 1, 1}, Case{static_cast<uint8_t>(ControlType::abort), 1, kMaxControlTextBytes + 1}}) {
    Star star(3);
    star.poll();
    Link raw(std::make_unique<MemoryStream>(star.pipes[1], 0, testing::address_of(1, 1)), 1 << 20);
    raw.send(c.type, encode_control(c.rank, std::vector<std::byte>(c.bytes)));
    ASSERT_TRUE(raw.flush().ok());
    star.poll();
    EXPECT_THAT(star.events(0), ElementsAre(HasSubstr("dead 1"))) << int{c.type};
    EXPECT_THAT(star.events(2), ElementsAre(HasSubstr("dead 1"))) << int{c.type};
  }
}

TEST(Control, WhoSpeaksIsKnownByTheLink) {
  Star star(3);
  star.poll();
  Link raw(std::make_unique<MemoryStream>(star.pipes[1], 0, testing::address_of(1, 1)), 1 << 20);
  raw.send(static_cast<uint8_t>(ControlType::abort), encode_control(2, as_bytes("not me")));
  ASSERT_TRUE(raw.flush().ok());
  star.poll();
  EXPECT_THAT(star.events(0), ElementsAre("abort 1: not me"));
}

TEST(Control, ShortMessagesAreRefused) {
  for (size_t bytes = 0; bytes < 4; ++bytes) {
    const std::vector<std::byte> body(bytes);
    EXPECT_FALSE(decode_control({.type = static_cast<uint8_t>(ControlType::message), .body = body}, 4).ok());
  }
}

}  // namespace
}  // namespace isthmus::bootstrap
