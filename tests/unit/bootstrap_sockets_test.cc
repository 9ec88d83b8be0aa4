// SPDX-License-Identifier: Apache-2.0
// Rendezvous and control plane over real sockets on the loopback interface, driven as a driver does: poll when a descriptor is ready or
// a time has come. What the tests in memory cannot see: descriptors, partial writes, resets, and whether anything spins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>

#include "bootstrap/control.h"
#include "bootstrap/rendezvous.h"
#include "transport/tcp/sockets.h"

namespace isthmus::bootstrap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimeNs clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Witness final : ControlSink {
  std::vector<std::string> events;
  void on_dead(int32_t rank, const std::string& why) override { events.push_back("dead " + std::to_string(rank) + ": " + why); }
  void on_abort(int32_t rank, const std::string& text) override { events.push_back("abort " + std::to_string(rank) + ": " + text); }
  void on_left(int32_t rank) override { events.push_back("left " + std::to_string(rank)); }
  void on_message(int32_t from, std::span<const std::byte> body) override {
    events.push_back("message " + std::to_string(from) + ": " + std::to_string(body.size()));
  }
  void on_unwatched(const std::string& why) override { events.push_back("unwatched: " + why); }
};

/// All machines of a job in one thread, waiting on all their descriptors.
struct Job {
  transport::Sockets network{{}};
  Logger log = Logger::silent();
  std::unique_ptr<Root> root;
  std::vector<std::unique_ptr<Member>> joining;
  std::unique_ptr<ControlHub> hub;
  std::vector<std::unique_ptr<Witness>> witnesses;
  std::vector<std::unique_ptr<ControlMember>> members;
  int rounds = 0;

  Surroundings surroundings(int process) {
    Surroundings result{.network = network, .crypto = *Crypto::load().value(), .log = log};
    result.process[0] = static_cast<uint8_t>(process);
    return result;
  }

  void wait() {
    std::vector<transport::Wait> waits;
    TimeNs due = clock_now() + kSecondNs;
    const auto add = [&](const auto& machine) {
      if (!machine) return;
      machine->waits(waits);
      due = std::min(due, machine->due());
    };
    add(root);
    add(hub);
    for (const auto& each : joining) add(each);
    for (const auto& each : members) add(each);
    std::vector<pollfd> fds;
    for (const transport::Wait& each : waits) {
      fds.push_back({.fd = each.fd, .events = static_cast<short>(each.write ? POLLIN | POLLOUT : POLLIN), .revents = 0});
    }
    const TimeNs left = std::max<TimeNs>(0, due - clock_now());
    ::poll(fds.data(), fds.size(), static_cast<int>((left + kMillisecondNs - 1) / kMillisecondNs));
    ++rounds;
  }

  /// Until `finished`; a failure of the test after 20 s.
  void run(const std::function<bool()>& finished) {
    for (const TimeNs end = clock_now() + 20 * kSecondNs; !finished() && clock_now() < end;) {
      wait();
      if (hub) hub->poll(clock_now());
      for (auto& each : members)
        if (each) each->poll(clock_now());
    }
    ASSERT_TRUE(finished());
  }

  void form(int32_t ranks, size_t blob_bytes) {
    auto id = fresh_id(random_bytes);
    const transport::Address loopback[] = {transport::parse_address("127.0.0.1:0").value(), transport::parse_address("[::1]:0").value()};
    auto opened = Root::open(surroundings(0), {}, *id, loopback);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    root = std::move(*opened);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      joining.push_back(Member::start(surroundings(rank), root->id(),
                                      {.rank = rank, .ranks = ranks, .blob = std::vector<std::byte>(blob_bytes)}, clock_now())
                            .value());
    }
    int32_t there = 0;
    run([&] {
      if (root && root->poll(clock_now()).value()) {
        hub = std::make_unique<ControlHub>(root->take_links(), ControlOptions{}, log, clock_now());
        root.reset();
      }
      for (auto& each : joining) {
        if (!each || !each->poll(clock_now()).value()) continue;
        EXPECT_EQ(each->table().blobs.size(), static_cast<size_t>(ranks));
        ++there;
        promote(each, ranks);
      }
      return there == ranks && hub != nullptr;
    });
  }

  void promote(std::unique_ptr<Member>& member, int32_t ranks) {
    const auto rank = static_cast<int32_t>(&member - joining.data());
    witnesses.resize(static_cast<size_t>(ranks));
    members.resize(static_cast<size_t>(ranks));
    auto& witness = witnesses[static_cast<size_t>(rank)] = std::make_unique<Witness>();
    members[static_cast<size_t>(rank)] = std::make_unique<ControlMember>(member->take_link(), rank, ranks, member->table().hub_rank,
                                                                         ControlOptions{}, *witness, clock_now());
    member.reset();
  }

  std::vector<std::string>& events(size_t rank) { return witnesses[rank]->events; }
};

TEST(BootstrapSockets, FormsWatchesAndParts) {
  Job job;
  job.form(5, 100);
  ASSERT_TRUE(job.members[0]->send(4, std::vector<std::byte>(kMaxControlBytes)).ok());
  job.run([&] { return !job.events(4).empty(); });
  EXPECT_THAT(job.events(4), ElementsAre("message 0: 16384"));

  job.members[3].reset();
  job.run([&] { return !job.events(0).empty() && !job.events(1).empty(); });
  EXPECT_THAT(job.events(0), ElementsAre(HasSubstr("dead 3")));
  EXPECT_THAT(job.events(1), ElementsAre(HasSubstr("dead 3")));

  for (const size_t rank : {1u, 2u, 4u, 0u}) {
    job.members[rank]->leave();
    job.run([&] { return job.members[rank]->finished(); });
  }
  job.run([&] { return job.hub->finished(); });
  for (const auto& event : job.events(0)) EXPECT_THAT(event, ::testing::Not(HasSubstr("dead 1")));
}

TEST(BootstrapSockets, LargeTablesAndNothingSpins) {
  Job job;
  job.form(40, kMaxBlobBytes);  // 160 KiB for each of 40
  EXPECT_LT(job.rounds, 2000) << "somebody asks to be polled for nothing";
  const int before = job.rounds;
  const TimeNs until = clock_now() + kSecondNs / 2;
  job.run([&] { return clock_now() >= until; });
  EXPECT_LT(job.rounds - before, 300) << "40 ranks with a heartbeat a second";
}

TEST(BootstrapSockets, HubsDeathIsSeen) {
  Job job;
  job.form(3, 10);
  job.hub.reset();
  job.members[0].reset();
  job.run([&] { return !job.events(1).empty() && !job.events(2).empty(); });
  EXPECT_THAT(job.events(1), ElementsAre(HasSubstr("dead 0")));
}

}  // namespace
}  // namespace isthmus::bootstrap
