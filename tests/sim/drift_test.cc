// SPDX-License-Identifier: Apache-2.0
// Links that change while jobs run, in virtual time: all ranks measure again and take over the next plan at the same call, however they
// are delayed and however far ahead their streams are; results stay right, and neither ranks that end nor ranks that die leave others
// waiting.
#include <functional>

#include "sim/job.h"

namespace isthmus::sim_test {
namespace {

constexpr size_t kRanks = 4;
constexpr size_t kCount = 4096;
const std::vector<std::string> kSites = {"a", "a", "b", "b"};
constexpr comm::Survey::Premises kPremises = {
    .wall_clock_s = 1'700'000'000, .reduce_bytes_per_s = 5'000'000'000, .copy_bytes_per_s = 6'000'000'000};

Settings probing() {
  Settings settings;
  settings.probe = true;
  return settings;
}

/// A job whose communicator has been surveyed, with a stream on each rank.
class Team {
 public:
  explicit Team(uint64_t seed, const Settings& settings = probing(), const std::function<void(size_t, Settings&)>& adjust = {})
      : job(seed, kRanks, settings, kSites, adjust) {
    set_links(5 * kMillisecondNs, 25e6);
    job.world.set_default_link({.latency_ns = 50'000, .rate_bytes_per_s = 1e9});
    job.join_all();
    if (testing::Test::HasFatalFailure()) return;
    job.begin_surveys(kPremises);
    EXPECT_TRUE(job.run_surveys());
    for (size_t rank = 0; rank < kRanks; ++rank) streams_.push_back(job.rank(rank).process->create_stream());
    outs_.resize(kRanks);
    ins_.resize(kRanks);
  }

  void set_links(TimeNs latency_ns, double rate_bytes_per_s) {
    for (size_t from = 0; from < kRanks; ++from) {
      for (size_t to = 0; to < kRanks; ++to) {
        if (kSites[from] == kSites[to]) continue;
        job.world.set_directed_link(job.rank(from).host, job.rank(to).host,
                                    {.latency_ns = latency_ns, .rate_bytes_per_s = rate_bytes_per_s});
      }
    }
  }

  /// Puts a call on the rank's stream. `scale` of the numbers, so that calls differ.
  void enqueue(size_t rank, Collective collective = Collective::allreduce, size_t count = kCount) {
    const auto value = static_cast<float>(outs_[rank].size() % 100 + rank);
    ins_[rank].push_back(std::make_unique<std::vector<float>>(count, value));
    outs_[rank].push_back(std::make_unique<std::vector<float>>(count, -1.0F));
    comm::Request request{.collective = collective, .in = ins_[rank].back()->data(), .out = outs_[rank].back()->data(), .count = count};
    if (collective == Collective::broadcast) request.root = 0;
    ASSERT_TRUE(job.rank(rank).communicator->check(request).ok());
    auto launch = std::make_unique<exec::Launch>();
    ASSERT_TRUE(job.rank(rank).communicator->add(request, *launch).ok());
    stream(rank).push(std::move(launch));
  }
  void enqueue_all(int calls, Collective collective = Collective::allreduce) {
    for (int call = 0; call < calls; ++call) {
      for (size_t rank = 0; rank < kRanks; ++rank) enqueue(rank, collective);
    }
  }

  [[nodiscard]] exec::Stream& stream(size_t rank) { return *job.rank(rank).process->find_stream(streams_[rank]); }
  [[nodiscard]] bool idle() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      if (!gone(rank) && !stream(rank).idle()) return false;
    }
    return true;
  }
  [[nodiscard]] bool gone(size_t rank) { return !job.world.runs(job.rank(rank).host) && dead_ == rank; }
  bool run(TimeNs limit_ns = 300 * kSecondNs) {
    return job.run_until([this] { return idle(); }, limit_ns);
  }

  /// Every allreduce's result at every rank.
  void expect_right() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(stream(rank).take_status().ok());
      for (size_t call = 0; call < outs_[rank].size(); ++call) {
        const auto sum = static_cast<float>(kRanks * (call % 100) + kRanks * (kRanks - 1) / 2);
        for (const size_t at : {size_t{0}, kCount / 2, kCount - 1})
          ASSERT_EQ((*outs_[rank][call])[at], sum) << "rank " << rank << " call " << call;
      }
    }
  }

  [[nodiscard]] uint64_t epoch(size_t rank) {
    std::vector<std::string> warnings;
    const auto plan = topology::parse_plan_file(job.rank(rank).communicator->plan_text(), warnings);
    return plan.ok() ? plan->epoch : 0;
  }
  void expect_epoch(uint64_t wanted) {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(epoch(rank), wanted) << "rank " << rank;
      EXPECT_EQ(job.rank(rank).communicator->plan_text(), job.rank(0).communicator->plan_text());
      EXPECT_EQ(job.rank(rank).communicator->profile_text(), job.rank(0).communicator->profile_text());
    }
  }
  void kill(size_t rank) {
    dead_ = rank;
    job.world.crash(job.rank(rank).host, transport::SimCrash::killed);
  }

  /// Each rank stands still now and then.
  void disturb(TimeNs for_ns) {
    for (TimeNs time = 0; time < for_ns; time += 40 * kMillisecondNs) {
      for (size_t rank = 0; rank < kRanks; ++rank) {
        if (job.world.dice().below(16) != 0) continue;
        const transport::SimHost host = job.rank(rank).host;
        const TimeNs begin = job.world.now() + time + static_cast<TimeNs>(job.world.dice().below(30'000'000));
        job.world.at(begin, [this, host] { job.world.pause(host); });
        job.world.at(begin + static_cast<TimeNs>(job.world.dice().below(30'000'000)), [this, host] { job.world.resume(host); });
      }
    }
  }

  std::vector<std::vector<std::unique_ptr<std::vector<float>>>> ins_, outs_;  // outlive the job, whose calls use them
  Job job;

 private:
  std::vector<uint64_t> streams_;
  std::optional<size_t> dead_;
};

TEST(SimDrift, SteadyLinksAreNotMeasuredAgain) {
  Team team(1);
  team.enqueue_all(300);
  ASSERT_TRUE(team.run());
  team.expect_right();
  team.expect_epoch(1);
}

TEST(SimDrift, ChangedLinksAreMeasuredWithinSixtyFourCalls) {
  struct Change {
    TimeNs latency_ns;
    double rate;
  };
  for (const Change& change : {Change{20 * kMillisecondNs, 25e6}, Change{20 * kMillisecondNs, 6.25e6}, Change{kMillisecondNs, 25e6}}) {
    SCOPED_TRACE(fmt::format("{} ms, {} MB/s", change.latency_ns / kMillisecondNs, change.rate / 1e6));
    Team team(2);
    team.enqueue_all(60);
    ASSERT_TRUE(team.run());
    team.expect_epoch(1);
    team.set_links(change.latency_ns, change.rate);
    team.enqueue_all(64);
    ASSERT_TRUE(team.run());
    team.expect_right();
    team.expect_epoch(2);
    const auto profile = topology::parse_profile(team.job.rank(0).communicator->profile_text());
    ASSERT_TRUE(profile.ok());
    for (const topology::LinkFacts& facts : profile->links) {
      if (facts.from.empty()) continue;
      EXPECT_NEAR(static_cast<double>(facts.latency_ns), static_cast<double>(change.latency_ns), 200e3);
      EXPECT_NEAR(static_cast<double>(facts.stream_bytes_per_s), change.rate, 0.1 * change.rate);
      EXPECT_GE(facts.measured_at_s, kPremises.wall_clock_s);
    }
    // The next plan holds: nothing is measured for the same reason twice.
    team.enqueue_all(200);
    ASSERT_TRUE(team.run());
    team.expect_right();
    team.expect_epoch(2);
  }
}

// Streams far ahead of what runs, ranks that stand still at other times than others, and calls that are alone.
TEST(SimDrift, AllRanksChangeOverAtTheSameCall) {
  for (uint64_t seed = 10; seed < 18; ++seed) {
    SCOPED_TRACE(seed);
    Team team(seed);
    team.disturb(10 * kSecondNs);
    team.enqueue_all(150);
    team.job.world.at(team.job.world.now() + 500 * kMillisecondNs, [&team] { team.set_links(40 * kMillisecondNs, 6e6); });
    ASSERT_TRUE(team.run());
    for (int call = 0; call < 10; ++call) {
      team.enqueue_all(1);
      ASSERT_TRUE(team.run());
    }
    team.expect_right();
    for (size_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(team.epoch(rank), team.epoch(0));
    EXPECT_GE(team.epoch(0), 2U);
  }
}

// A call on the NULL stream meets the hold, too.
TEST(SimDrift, WaitingCallsAreHeldAndPlannedAnew) {
  Team team(3);
  std::vector<std::vector<float>> in(kRanks, std::vector<float>(kCount, 1.0F)), out(kRanks, std::vector<float>(kCount));
  int held = 0;
  for (int call = 0; call < 130; ++call) {
    if (call == 50) team.set_links(20 * kMillisecondNs, 6e6);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      held += team.job.rank(rank).communicator->may_begin() ? 0 : 1;
      team.job.submit(rank, {.collective = Collective::allreduce, .in = in[rank].data(), .out = out[rank].data(), .count = kCount});
    }
    ASSERT_TRUE(team.job.run_launches());
    for (size_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(team.job.rank(rank).launch->status().ok()) << team.job.rank(rank).launch->status().text();
      ASSERT_EQ(out[rank].back(), 4.0F);
    }
  }
  EXPECT_GT(held, 0);
  team.expect_epoch(2);
}

// Whatever number of calls a program makes, its end is not waited for.
TEST(SimDrift, RanksThatEndLeaveNobodyWaiting) {
  for (int calls = 62; calls < 82; ++calls) {
    SCOPED_TRACE(calls);
    Team team(static_cast<uint64_t>(calls));
    team.enqueue_all(60);
    ASSERT_TRUE(team.run());
    team.set_links(20 * kMillisecondNs, 6e6);
    team.enqueue_all(calls - 60);
    team.disturb(kSecondNs);
    std::vector<bool> closed(kRanks);
    const auto all_closed = [&] {
      for (size_t rank = 0; rank < kRanks; ++rank) {
        if (closed[rank] || !team.stream(rank).idle() || !team.job.rank(rank).communicator->idle()) continue;
        team.job.rank(rank).communicator->close();
        closed[rank] = true;
      }
      return std::find(closed.begin(), closed.end(), false) == closed.end();
    };
    ASSERT_TRUE(team.job.run_until(all_closed, 20 * kSecondNs)) << "somebody waits";
    team.expect_right();
  }
}

TEST(SimDrift, RankThatDiesMeanwhileEndsIt) {
  for (TimeNs after = 50 * kMillisecondNs; after < 2500 * kMillisecondNs; after += 220 * kMillisecondNs) {
    for (const size_t victim : {size_t{0}, size_t{3}}) {
      SCOPED_TRACE(fmt::format("rank {} after {} ms", victim, after / kMillisecondNs));
      Team team(5);
      team.enqueue_all(60);
      ASSERT_TRUE(team.run());
      team.set_links(20 * kMillisecondNs, 6e6);
      team.enqueue_all(200);
      team.job.world.at(team.job.world.now() + after, [&] { team.kill(victim); });
      ASSERT_TRUE(team.run(30 * kSecondNs)) << "a survivor hangs";
      for (size_t rank = 0; rank < kRanks; ++rank) {
        if (rank == victim) continue;
        const Status& status = team.job.rank(rank).communicator->state();
        EXPECT_EQ(status.code(), Code::remote_error) << status.text();
        EXPECT_EQ(status.origin_rank(), static_cast<int32_t>(victim)) << status.text();
      }
    }
  }
}

TEST(SimDrift, IsOffWhereTheSettingsSaySo) {
  Settings settings = probing();
  settings.drift_percent = 0;
  Team team(6, settings);
  team.enqueue_all(60);
  ASSERT_TRUE(team.run());
  team.set_links(20 * kMillisecondNs, 6e6);
  team.enqueue_all(100);
  ASSERT_TRUE(team.run());
  team.expect_right();
  team.expect_epoch(1);
}

// A rank alone neither keeps the others from it nor leaves them waiting.
TEST(SimDrift, RankZerosSettingCountsForAll) {
  for (const size_t other : {size_t{0}, size_t{2}}) {
    Team team(7, probing(), [&](size_t rank, Settings& settings) { settings.drift_percent = rank == other ? 0 : 20; });
    team.enqueue_all(60);
    ASSERT_TRUE(team.run());
    team.set_links(20 * kMillisecondNs, 6e6);
    team.enqueue_all(100);
    ASSERT_TRUE(team.run());
    team.expect_right();
    team.expect_epoch(other == 0 ? 1 : 2);
  }
}

// Somebody ends the communicator from another thread while a call waits for the others to change over.
TEST(SimDrift, HeldCallsEndWithTheirCommunicator) {
  for (const bool aborts : {true, false}) {
    Team team(8);
    std::vector<std::vector<float>> in(kRanks, std::vector<float>(kCount, 1.0F)), out(kRanks, std::vector<float>(kCount));
    const auto is_held = [&](size_t rank) { return team.job.rank(rank).launch != nullptr && !team.job.rank(rank).launch->submitted(); };
    std::optional<size_t> held;
    for (int call = 0; call < 130 && !held; ++call) {
      if (call == 50) team.set_links(20 * kMillisecondNs, 6e6);
      for (size_t rank = 0; rank < kRanks; ++rank) {
        team.job.submit(rank, {.collective = Collective::allreduce, .in = in[rank].data(), .out = out[rank].data(), .count = kCount});
        if (!held && is_held(rank)) held = rank;
      }
      if (!held) {
        ASSERT_TRUE(team.job.run_launches());
      }
    }
    ASSERT_TRUE(held);
    comm::Communicator& communicator = *team.job.rank(*held).communicator;
    EXPECT_FALSE(communicator.idle());
    if (aborts) communicator.abort();
    communicator.close();
    ASSERT_TRUE(team.job.run_until([&] { return team.job.rank(*held).launch->done(); }, kSecondNs));
    EXPECT_EQ(team.job.rank(*held).launch->status().code(), Code::invalid_usage);
  }
}

}  // namespace
}  // namespace isthmus::sim_test
