// SPDX-License-Identifier: Apache-2.0
// A whole job in one thread and in virtual time: every rank is a Process on a simulated host, joined through the real rendezvous, over
// the real tcp transport. Everything is decided by one seed. Used by tests/sim; failures are gtest's or returned to the test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/select.h"
#include "comm/drift.h"
#include "comm/join.h"
#include "comm/setup.h"
#include "transport/sim/world.h"

namespace isthmus::sim_test {

class Job {
 public:
  struct Rank {
    transport::SimHost host = 0;
    std::unique_ptr<exec::Process> process;
    std::shared_ptr<comm::Join> join;
    std::shared_ptr<comm::Watch> watch;
    std::unique_ptr<exec::Launch> launch;  // outlives the communicator, whose end ends its calls
    std::unique_ptr<comm::Survey> survey;  // likewise
    std::unique_ptr<comm::Communicator> communicator;
  };

  /// `sites`: the name of each rank's site, or of its region and site ("r/a"); empty: each host is one. `adjust`: makes a rank's settings
  /// others than those of all.
  Job(uint64_t seed, int32_t ranks, const Settings& settings = {}, const std::vector<std::string>& sites = {},
      const std::function<void(size_t rank, Settings&)>& adjust = {})
      : world(seed), settings_(settings) {
    auto selector = collectives::Selector::make(settings.algorithm);
    EXPECT_TRUE(selector.ok()) << selector.status().text();
    selector_ = std::make_unique<collectives::Selector>(std::move(*selector));
    settings_.shm_disable = true;  // every rank's host is another one, as far as the job is concerned
    for (int32_t rank = 0; rank < ranks; ++rank) {
      Rank added;
      added.host = world.add_host(fmt::format("h{}", rank));
      exec::Identity identity{.process = {}, .host = 0, .hostname = fmt::format("h{}", rank), .pid = rank + 1, .site = {}};
      for (uint8_t& byte : identity.process) byte = static_cast<uint8_t>(world.dice().below(256));
      if (!sites.empty()) {
        identity.host = static_cast<uint64_t>(rank) + 1;
        const std::string& name = sites[static_cast<size_t>(rank)];
        const size_t slash = name.find('/');
        identity.region = slash == std::string::npos ? std::string() : name.substr(0, slash);
        identity.site = slash == std::string::npos ? name : name.substr(slash + 1);
      }
      Settings own = settings_;
      if (adjust) adjust(static_cast<size_t>(rank), own);
      added.process = std::make_unique<exec::Process>(own, identity, Logger::silent(), &world.network(added.host));
      ranks_.push_back(std::move(added));
    }
  }

  /// Starts the rendezvous: the root on rank 0's host, every rank as a member.
  void begin_join() {
    const auto random = [this](std::span<std::byte> out) {
      for (std::byte& byte : out) byte = static_cast<std::byte>(world.dice().below(256));
      return Status();
    };
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      auto crypto = ranks_[rank].process->crypto();
      ASSERT_TRUE(crypto.ok()) << crypto.status().text();
      surroundings_.push_back(
          std::make_unique<bootstrap::Surroundings>(bootstrap::Surroundings{.network = *ranks_[rank].process->network(),
                                                                            .crypto = **crypto,
                                                                            .log = ranks_[rank].process->log(),
                                                                            .process = ranks_[rank].process->identity().process,
                                                                            .random = random}));
    }
    auto id = bootstrap::fresh_id(random);
    ASSERT_TRUE(id.ok());
    const std::vector<transport::Address> listen_at{world.address(ranks_[0].host)};
    auto root = bootstrap::Root::open(*surroundings_[0], {.timeout_ns = settings_.setup_timeout_ns}, *id, listen_at);
    ASSERT_TRUE(root.ok()) << root.status().text();
    const bootstrap::UniqueId complete = (*root)->id();
    root_ = std::make_unique<comm::RootTask>(std::move(*root), comm::control_options(settings_), ranks_[0].process->log());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      auto card = ranks_[rank].process->card();
      ASSERT_TRUE(card.ok()) << card.status().text();
      auto join = comm::Join::start(
          *surroundings_[rank], settings_,
          {.id = complete, .rank = static_cast<int32_t>(rank), .ranks = static_cast<int32_t>(ranks_.size()), .name = {}, .card = *card},
          world.now(), [] {});
      ASSERT_TRUE(join.ok()) << join.status().text();
      ranks_[rank].join = *join;
    }
  }

  /// Makes a communicator of a join that is over; false (with the reason in `failure`) if it failed.
  bool open(size_t rank, Status* failure = nullptr) {
    auto membership = ranks_[rank].join->membership();
    Status status = membership.status();
    if (membership.ok()) {
      ranks_[rank].watch = ranks_[rank].join->make_watch(
          settings_, world.now(), [](const std::function<void()>& action) { action(); }, [] {});
      membership->messenger = ranks_[rank].watch;
      auto communicator = comm::open_communicator({.process = *ranks_[rank].process, .selector = *selector_}, std::move(*membership));
      status = communicator.status();
      if (communicator.ok()) ranks_[rank].communicator = std::move(*communicator);
    }
    if (failure != nullptr) *failure = status;
    return status.ok();
  }

  void join_all() {
    begin_join();
    ASSERT_TRUE(run_until([this] {
      for (const Rank& rank : ranks_) {
        if (!rank.join->over()) return false;
      }
      return true;
    }));
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      Status failure;
      ASSERT_TRUE(open(rank, &failure)) << failure.text();
    }
  }

  /// Begins what the library does after joining where ISTHMUS_PROBE says so.
  void begin_surveys(comm::Survey::Premises premises) {
    for (Rank& rank : ranks_) {
      ASSERT_TRUE(comm::wants_survey(*rank.communicator));
      premises.drift_percent = rank.process->settings().drift_percent;
      rank.survey = std::make_unique<comm::Survey>(*rank.communicator, premises, world.now());
    }
  }
  bool run_surveys(TimeNs limit_ns = 120 * kSecondNs) {
    const bool over = run_until(
        [this] {
          for (const Rank& rank : ranks_) {
            if (world.runs(rank.host) && !rank.survey->over()) return false;
          }
          return true;
        },
        limit_ns);
    for (Rank& rank : ranks_) {
      if (!world.runs(rank.host) || !rank.survey->over() || !rank.survey->status().ok()) continue;
      comm::follow_survey({.process = *rank.process, .selector = *selector_}, *rank.communicator, *rank.survey, world.now());
    }
    return over;
  }

  /// Begins a call on one rank; its outcome is in launch(rank).
  void submit(size_t rank, comm::Request request) {
    ASSERT_TRUE(ranks_[rank].communicator->check(request).ok());
    ranks_[rank].launch = std::make_unique<exec::Launch>();
    const Status added = ranks_[rank].communicator->add(request, *ranks_[rank].launch);
    ASSERT_TRUE(added.ok()) << added.text();
    ranks_[rank].process->begin(*ranks_[rank].launch);
  }

  /// Steps the world and polls everybody until `done` or the (virtual) limit.
  template <typename Done>
  bool run_until(Done&& done, TimeNs limit_ns = 120 * kSecondNs) {
    const TimeNs until = world.now() + limit_ns;
    while (!done()) {
      if (world.now() >= until) return false;
      if (poll_all()) continue;
      // Timers run in poll, so nobody sleeps longer than this.
      const TimeNs next = std::min(world.next_event(), world.now() + 10 * kMillisecondNs);
      world.run_until(next);
    }
    return true;
  }

  bool run_launches(TimeNs limit_ns = 120 * kSecondNs) {
    return run_until(
        [this] {
          for (const Rank& rank : ranks_) {
            if (world.runs(rank.host) && rank.launch != nullptr && !rank.launch->done()) return false;
          }
          return true;
        },
        limit_ns);
  }

  [[nodiscard]] Rank& rank(size_t rank) { return ranks_[rank]; }
  [[nodiscard]] size_t ranks() const { return ranks_.size(); }

  transport::SimWorld world;  // first in, last out: everything below stands on it

 private:
  bool poll_all() {
    bool moved = false;
    const TimeNs now = world.now();
    if (root_ != nullptr && world.runs(ranks_[0].host) && !root_->poll(now)) root_.reset();
    for (Rank& rank : ranks_) {
      if (!world.runs(rank.host)) continue;
      if (rank.join != nullptr && !rank.join->over()) rank.join->poll(now);
      if (rank.watch != nullptr) rank.watch->poll(now);
      if (rank.survey != nullptr) rank.survey->poll(now);
      moved |= rank.process->poll(now);
    }
    return moved;
  }

  Settings settings_;
  std::unique_ptr<collectives::Selector> selector_;
  std::vector<std::unique_ptr<bootstrap::Surroundings>> surroundings_;
  std::unique_ptr<comm::RootTask> root_;
  std::vector<Rank> ranks_;
};

}  // namespace isthmus::sim_test
