// SPDX-License-Identifier: Apache-2.0
// Whole jobs in virtual time: right sums over every kind of link, the same run from the same seed, and errors instead of hangs when
// ranks die or part.
#include "sim/job.h"

namespace isthmus::sim_test {
namespace {

using transport::LinkModel;

struct Buffers {
  std::vector<std::vector<float>> in, out;
  Buffers(size_t ranks, size_t count) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      in.emplace_back(count);
      for (size_t i = 0; i < count; ++i) in.back()[i] = static_cast<float>((rank * 31 + i) % 1009);
      out.emplace_back(count, -1.0F);
    }
  }
  [[nodiscard]] comm::Request allreduce(size_t rank) {
    return {.collective = Collective::allreduce, .in = in[rank].data(), .out = out[rank].data(), .count = in[rank].size()};
  }
  void expect_sums() const {
    for (size_t i = 0; i < in[0].size(); ++i) {
      float sum = 0;
      for (const auto& input : in) sum += input[i];
      for (size_t rank = 0; rank < out.size(); ++rank) ASSERT_EQ(out[rank][i], sum) << "rank " << rank << " element " << i;
    }
  }
};

uint64_t allreduce_once(uint64_t seed, int32_t ranks, size_t count, const LinkModel& link) {
  Job job(seed, ranks);
  job.world.set_default_link(link);
  job.join_all();
  if (testing::Test::HasFatalFailure()) return 0;
  Buffers buffers(static_cast<size_t>(ranks), count);
  for (int call = 0; call < 3; ++call) {
    for (size_t rank = 0; rank < job.ranks(); ++rank) job.submit(rank, buffers.allreduce(rank));
    EXPECT_TRUE(job.run_launches()) << "call " << call << " hangs";
    for (size_t rank = 0; rank < job.ranks(); ++rank) {
      EXPECT_TRUE(job.rank(rank).launch->status().ok()) << job.rank(rank).launch->status().text();
    }
    buffers.expect_sums();
  }
  return job.world.trace_hash();
}

TEST(SimJob, SumsOverEveryKindOfLink) {
  const LinkModel links[] = {
      {},
      {.latency_ns = 10 * kMillisecondNs, .jitter_ns = 3 * kMillisecondNs, .rate_bytes_per_s = 25e6},
      {.latency_ns = 1 * kMillisecondNs, .rate_bytes_per_s = 125e6, .loss = 0.02},
  };
  uint64_t seed = 1;
  for (const LinkModel& link : links) {
    for (const int32_t ranks : {2, 3, 5}) {
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) allreduce_once(seed++, ranks, count, link);
    }
  }
}

TEST(SimJob, EqualSeedsGiveEqualRuns) {
  const LinkModel link{.latency_ns = kMillisecondNs, .jitter_ns = kMillisecondNs, .rate_bytes_per_s = 125e6, .loss = 0.01};
  const uint64_t first = allreduce_once(42, 4, 50'000, link);
  EXPECT_EQ(first, allreduce_once(42, 4, 50'000, link));
  EXPECT_NE(first, allreduce_once(43, 4, 50'000, link));
}

TEST(SimJob, KilledRankIsNamedByEverySurvivor) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    Job job(seed, 4);
    job.world.set_default_link({.latency_ns = kMillisecondNs, .rate_bytes_per_s = 125e6});
    job.join_all();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    Buffers buffers(4, 1'000'000);
    for (size_t rank = 0; rank < 4; ++rank) job.submit(rank, buffers.allreduce(rank));
    const size_t victim = seed % 4;
    job.world.at(job.world.now() + static_cast<TimeNs>(1 + job.world.dice().below(40)) * kMillisecondNs,
                 [&] { job.world.crash(job.rank(victim).host, transport::SimCrash::killed); });
    const TimeNs begun = job.world.now();
    ASSERT_TRUE(job.run_launches(10 * kSecondNs)) << "a survivor hangs, seed " << seed;
    EXPECT_LT(job.world.now() - begun, 3 * kSecondNs);
    for (size_t rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      const Status status = job.rank(rank).launch->status();
      if (status.ok()) continue;  // it was through before
      EXPECT_EQ(status.origin_rank(), static_cast<int32_t>(victim)) << status.text();
      EXPECT_EQ(status.code(), Code::remote_error) << status.text();
    }
  }
}

TEST(SimJob, PartitionThatHealsOnlyDelays) {
  Job job(7, 4);
  job.world.set_default_link({.latency_ns = kMillisecondNs, .rate_bytes_per_s = 125e6});
  job.join_all();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  Buffers buffers(4, 500'000);
  for (size_t rank = 0; rank < 4; ++rank) job.submit(rank, buffers.allreduce(rank));
  const std::vector<transport::SimHost> side{job.rank(0).host, job.rank(1).host};
  job.world.at(job.world.now() + 5 * kMillisecondNs, [&] { job.world.partition(side); });
  job.world.at(job.world.now() + 3 * kSecondNs, [&] { job.world.heal(); });
  ASSERT_TRUE(job.run_launches());
  buffers.expect_sums();
}

// Both sides name both calls, although one of them (the root of a broadcast) may have returned long ago.
TEST(SimJob, MismatchIsNamedOnBothSides) {
  Job job(11, 3);
  job.join_all();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  Buffers buffers(3, 1000);
  for (size_t rank = 0; rank < 3; ++rank) {
    comm::Request request = buffers.allreduce(rank);
    request.collective = Collective::broadcast;
    request.root = 0;
    if (rank == 2) request.count = 999;
    job.submit(rank, request);
  }
  const TimeNs begun = job.world.now();
  const auto all_failed = [&] {
    for (size_t rank = 0; rank < 3; ++rank) {
      if (job.rank(rank).communicator->state().ok()) return false;
    }
    return true;
  };
  ASSERT_TRUE(job.run_until(all_failed, 10 * kSecondNs));
  EXPECT_LT(job.world.now() - begun, kSecondNs);
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    const std::string text = job.rank(rank).communicator->state().text();
    EXPECT_NE(text.find("count 1000"), std::string::npos) << text;
    EXPECT_NE(text.find("count 999"), std::string::npos) << text;
  }
}

TEST(SimJob, RankThatNeverComesIsNamed) {
  Settings settings;
  settings.setup_timeout_ns = 2 * kSecondNs;
  Job job(9, 3, settings);
  job.begin_join();
  job.world.crash(job.rank(2).host, transport::SimCrash::vanished);
  ASSERT_TRUE(job.run_until([&] { return job.rank(0).join->over() && job.rank(1).join->over(); }, 10 * kSecondNs));
  const auto membership = job.rank(1).join->membership();
  ASSERT_FALSE(membership.ok());
  EXPECT_EQ(membership.status().code(), Code::timeout);
  EXPECT_NE(membership.status().text().find("2"), std::string::npos) << membership.status().text();
}

}  // namespace
}  // namespace isthmus::sim_test
