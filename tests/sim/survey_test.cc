// SPDX-License-Identifier: Apache-2.0
// Surveys of whole jobs in virtual time: what is measured is what the network was told to be, all ranks end with the same profile and plan,
// and a rank that dies meanwhile ends the survey instead of hanging it.
#include <map>

#include "sim/job.h"

namespace isthmus::sim_test {
namespace {

using topology::Confidence;
using topology::LinkFacts;
using topology::Profile;

constexpr comm::Survey::Premises kPremises = {
    .wall_clock_s = 1'700'000'000, .reduce_bytes_per_s = 5'000'000'000, .copy_bytes_per_s = 6'000'000'000};

/// What a simulated connection has under way at most.
constexpr double kWindowBytes = 4 << 20;

Settings probing() {
  Settings settings;
  settings.probe = true;
  return settings;
}

struct Net {
  std::vector<std::string> sites = {"a", "a", "b", "b"};
  TimeNs latency_ns = 5 * kMillisecondNs;
  double rate_bytes_per_s = 25e6;  ///< of each pair of hosts at different sites
  double cut_bytes_per_s = 0;      ///< of all together in each direction; 0: not limited
  transport::LinkModel near = {.latency_ns = 50'000, .rate_bytes_per_s = 1e9};
};

void connect(Job& job, const Net& net) {
  job.world.set_default_link(net.near);
  std::map<std::string, std::vector<transport::SimHost>> hosts;
  for (size_t rank = 0; rank < job.ranks(); ++rank) hosts[net.sites[rank]].push_back(job.rank(rank).host);
  for (const auto& [site, from] : hosts) {
    for (const auto& [other, to] : hosts) {
      if (site == other) continue;
      for (const auto a : from) {
        for (const auto b : to) job.world.set_directed_link(a, b, {.latency_ns = net.latency_ns, .rate_bytes_per_s = net.rate_bytes_per_s});
      }
      if (net.cut_bytes_per_s > 0) job.world.add_cut(from, to, net.cut_bytes_per_s);
    }
  }
}

Profile survey(Job& job) {
  job.begin_surveys(kPremises);
  EXPECT_TRUE(job.run_surveys());
  for (size_t rank = 0; rank < job.ranks(); ++rank) {
    EXPECT_TRUE(job.rank(rank).survey->status().ok()) << job.rank(rank).survey->status().text();
    EXPECT_EQ(job.rank(rank).communicator->profile_text(), job.rank(0).communicator->profile_text()) << "rank " << rank;
    EXPECT_EQ(job.rank(rank).communicator->plan_text(), job.rank(0).communicator->plan_text()) << "rank " << rank;
  }
  EXPECT_FALSE(job.rank(0).communicator->plan_text().empty());
  const auto profile = topology::parse_profile(job.rank(0).communicator->profile_text());
  EXPECT_TRUE(profile.ok()) << profile.status().text();
  return profile.ok() ? *profile : Profile();
}

const LinkFacts* link(const Profile& profile, std::string_view from, std::string_view to) {
  for (const LinkFacts& one : profile.links) {
    if (one.from == from && one.to == to) return &one;
  }
  return nullptr;
}

void expect_latency(const LinkFacts& facts, TimeNs truth) {
  const double allowed = std::max(0.05 * static_cast<double>(truth), 200e3);
  EXPECT_NEAR(static_cast<double>(facts.latency_ns), static_cast<double>(truth), allowed);
  EXPECT_EQ(facts.confidence, Confidence::measured);
}

TEST(SimSurvey, FindsWhatTheNetworkIs) {
  for (const TimeNs latency : {kMillisecondNs / 10, kMillisecondNs, 5 * kMillisecondNs, 25 * kMillisecondNs}) {
    for (const double rate : {10e6, 25e6, 100e6}) {
      SCOPED_TRACE(fmt::format("{} us, {} MB/s", latency / 1000, rate / 1e6));
      const Net net{.latency_ns = latency, .rate_bytes_per_s = rate};
      Job job(1, 4, probing(), net.sites);
      connect(job, net);
      job.join_all();
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      const TimeNs begun = job.world.now();
      const Profile profile = survey(job);
      EXPECT_LT(job.world.now() - begun, 2500 * kMillisecondNs);
      for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "a")}) {
        const LinkFacts* facts = link(profile, from, to);
        ASSERT_NE(facts, nullptr);
        expect_latency(*facts, latency);
        const double truth = std::min(rate, kWindowBytes * 1e9 / static_cast<double>(2 * latency));
        EXPECT_NEAR(static_cast<double>(facts->stream_bytes_per_s), truth, 0.1 * truth);
        // Two streams are as quick as one each; a cut that the budget leaves no room for is taken to be what one gets.
        const uint64_t cut = facts->cut_bytes_per_s;
        EXPECT_TRUE(cut == 0 || (latency >= 25 * kMillisecondNs && cut == facts->stream_bytes_per_s)) << cut;
        EXPECT_EQ(facts->measured_at_s, kPremises.wall_clock_s);
      }
      const LinkFacts* inside = link(profile, "", "");
      ASSERT_NE(inside, nullptr);
      EXPECT_EQ(inside->within, topology::Level::building);
      expect_latency(*inside, net.near.latency_ns);
      EXPECT_NEAR(static_cast<double>(inside->stream_bytes_per_s), net.near.rate_bytes_per_s, 0.1 * net.near.rate_bytes_per_s);
      EXPECT_EQ(profile.machine.reduce_bytes_per_s, kPremises.reduce_bytes_per_s);
    }
  }
}

TEST(SimSurvey, FindsWhatIsShared) {
  const Net net{.cut_bytes_per_s = 25e6};
  Job job(2, 4, probing(), net.sites);
  connect(job, net);
  job.join_all();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  const Profile profile = survey(job);
  const LinkFacts* facts = link(profile, "a", "b");
  ASSERT_NE(facts, nullptr);
  EXPECT_NEAR(static_cast<double>(facts->stream_bytes_per_s), 25e6, 2.5e6);
  EXPECT_NEAR(static_cast<double>(facts->cut_bytes_per_s), 25e6, 0.15 * 25e6);
}

// The first look is taken, however long it takes, and nothing else.
TEST(SimSurvey, SlowLinkIsLookedAtOnce) {
  const Net net{.sites = {"a", "b"}, .latency_ns = 100 * kMillisecondNs, .rate_bytes_per_s = 50e3};
  Job job(3, 2, probing(), net.sites);
  connect(job, net);
  job.join_all();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  const TimeNs begun = job.world.now();
  const Profile profile = survey(job);
  EXPECT_LT(job.world.now() - begun, 15 * kSecondNs);
  const LinkFacts* facts = link(profile, "a", "b");
  ASSERT_NE(facts, nullptr);
  expect_latency(*facts, net.latency_ns);
  EXPECT_NEAR(static_cast<double>(facts->stream_bytes_per_s), net.rate_bytes_per_s, 0.1 * net.rate_bytes_per_s);
  EXPECT_EQ(facts->samples, 4U);
  for (const LinkFacts& one : profile.links) {
    EXPECT_EQ(one.confidence, one.from.empty() ? Confidence::prior : Confidence::measured);
  }
}

TEST(SimSurvey, CallsFollowThePlanAndAreRight) {
  const Net net;
  Job job(4, 4, probing(), net.sites);
  connect(job, net);
  job.join_all();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  (void)survey(job);
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{400'000}}) {
    std::vector<std::vector<float>> in(4, std::vector<float>(count, 1.0F)), out(4, std::vector<float>(count));
    for (size_t rank = 0; rank < 4; ++rank) {
      job.submit(rank, {.collective = Collective::allreduce, .in = in[rank].data(), .out = out[rank].data(), .count = count});
    }
    ASSERT_TRUE(job.run_launches());
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(job.rank(rank).launch->status().ok()) << job.rank(rank).launch->status().text();
      EXPECT_EQ(out[rank].back(), 4.0F);
    }
  }
}

TEST(SimSurvey, RankThatDiesEndsIt) {
  for (const TimeNs after : {2 * kMillisecondNs, 50 * kMillisecondNs, 300 * kMillisecondNs}) {
    for (const size_t victim : {size_t{0}, size_t{2}, size_t{3}}) {
      SCOPED_TRACE(fmt::format("rank {} after {} ms", victim, after / kMillisecondNs));
      const Net net;
      Job job(5, 4, probing(), net.sites);
      connect(job, net);
      job.join_all();
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      job.begin_surveys(kPremises);
      job.world.at(job.world.now() + after, [&] { job.world.crash(job.rank(victim).host, transport::SimCrash::killed); });
      ASSERT_TRUE(job.run_surveys(10 * kSecondNs)) << "a survivor hangs";
      for (size_t rank = 0; rank < 4; ++rank) {
        if (rank == victim) continue;
        const Status& status = job.rank(rank).survey->status();
        EXPECT_EQ(status.code(), Code::remote_error) << status.text();
        EXPECT_EQ(status.origin_rank(), static_cast<int32_t>(victim)) << status.text();
      }
    }
  }
}

// Nobody says where hosts are, but their round trips do.
TEST(SimSurvey, SitesAreToldByRoundTrips) {
  struct Case {
    std::vector<std::string> truth;
    std::vector<int32_t> sites;
  };
  for (const Case& one :
       {Case{{"a", "a", "b", "b"}, {0, 0, 1, 1}}, Case{{"a", "b", "a", "c", "c"}, {0, 1, 0, 2, 2}}, Case{{"a", "b", "c"}, {}}}) {
    const Net net{.sites = one.truth};
    Job job(7, static_cast<int32_t>(one.truth.size()), probing(), std::vector<std::string>(one.truth.size()));
    connect(job, net);
    job.join_all();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    const Profile profile = survey(job);
    for (size_t rank = 0; rank < job.ranks(); ++rank) EXPECT_EQ(job.rank(rank).communicator->membership().sites, one.sites);
    const LinkFacts* facts = link(profile, one.sites.empty() ? "h0" : "m0", one.sites.empty() ? "h1" : "m1");
    ASSERT_NE(facts, nullptr);
    expect_latency(*facts, net.latency_ns);
    const size_t count = 5000;
    std::vector<std::vector<float>> in(job.ranks(), std::vector<float>(count, 1.0F)), out(job.ranks(), std::vector<float>(count));
    for (size_t rank = 0; rank < job.ranks(); ++rank) {
      job.submit(rank, {.collective = Collective::allreduce, .in = in[rank].data(), .out = out[rank].data(), .count = count});
    }
    ASSERT_TRUE(job.run_launches());
    for (size_t rank = 0; rank < job.ranks(); ++rank) EXPECT_EQ(out[rank].back(), static_cast<float>(job.ranks()));
  }
}

TEST(SimSurvey, IsNotWantedByAll) {
  for (size_t unwilling = 0; unwilling < 3; ++unwilling) {
    Job job(6, 3, probing(), {"a", "a", "b"}, [&](size_t rank, Settings& settings) { settings.probe = rank != unwilling; });
    job.join_all();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    for (size_t rank = 0; rank < 3; ++rank) EXPECT_FALSE(comm::wants_survey(*job.rank(rank).communicator)) << rank;
  }
}

}  // namespace
}  // namespace isthmus::sim_test
