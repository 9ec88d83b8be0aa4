// SPDX-License-Identifier: Apache-2.0
// Exact hierarchies of whole jobs in virtual time: right results and the same bits on every rank, for any sites, counts and operators; and
// a job at several sites takes them by itself, so that the links between sites carry as little as can be.
#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <string>

#include "base/text.h"
#include "sim/job.h"

namespace isthmus::sim_test {
namespace {

using Vectors = std::vector<std::vector<float>>;

struct Case {
  std::vector<std::string> sites;
  Collective collective = Collective::allreduce;
  uint64_t count = 10'007;  ///< of a block
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;
};

std::vector<std::string> sites_of(std::string_view letters) {
  std::vector<std::string> sites;
  for (const char letter : letters) sites.emplace_back(1, letter);
  return sites;
}

constexpr size_t kRoot = 1;
constexpr Collective kCollectivesWithSites[] = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                                                Collective::broadcast, Collective::reduce,         Collective::alltoall};

/// Calls of one kind in one job.
class Calls {
 public:
  Calls(Job& job, const Case& what) : job_(job), what_(what) {
    const uint64_t blocks = is_by_rank(what.collective) ? job.ranks() : 1;
    const uint64_t in = what.count * (what.collective == Collective::allgather ? 1 : blocks);
    const uint64_t out = what.count * (what.collective == Collective::reduce_scatter ? 1 : blocks);
    for (size_t rank = 0; rank < job.ranks(); ++rank) {
      std::mt19937 random(static_cast<uint32_t>(rank + 1));
      std::normal_distribution<float> normal;
      in_.emplace_back(in);
      for (float& value : in_.back()) value = normal(random);
      out_.emplace_back(out, -1.0F);
    }
  }

  void run() {
    Vectors whole(job_.ranks());  // in place, the smaller buffer is a part of the larger one
    for (size_t rank = 0; rank < job_.ranks(); ++rank) {
      const uint64_t own = is_by_rank(what_.collective) ? rank * what_.count : 0;
      comm::Request request{
          .collective = what_.collective, .in = in_[rank].data(), .out = out_[rank].data(), .count = what_.count, .op = {.op = what_.op}};
      if (is_rooted(what_.collective)) request.root = static_cast<int32_t>(kRoot);
      if (what_.in_place) {
        whole[rank].resize(std::max(in_[rank].size(), out_[rank].size()));
        const bool gathers = what_.collective == Collective::allgather;
        std::copy(in_[rank].begin(), in_[rank].end(), whole[rank].begin() + static_cast<std::ptrdiff_t>(gathers ? own : 0));
        request.in = whole[rank].data() + (gathers ? own : 0);
        request.out = whole[rank].data() + (gathers ? 0 : own);
      }
      job_.submit(rank, request);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(job_.run_launches());
    for (size_t rank = 0; rank < job_.ranks(); ++rank) {
      EXPECT_TRUE(job_.rank(rank).launch->status().ok()) << job_.rank(rank).launch->status().text();
      if (!what_.in_place) continue;
      const uint64_t from = what_.collective == Collective::reduce_scatter ? rank * what_.count : 0;
      std::copy_n(whole[rank].begin() + static_cast<std::ptrdiff_t>(from), out_[rank].size(), out_[rank].begin());
    }
  }

  void expect_right() const {
    for (size_t rank = 0; rank < out_.size(); ++rank) {
      if (what_.collective == Collective::reduce && rank != kRoot) continue;
      const uint64_t from = what_.collective == Collective::reduce_scatter ? rank * what_.count : 0;
      for (size_t i = 0; i < out_[rank].size(); ++i) {
        ASSERT_NEAR(out_[rank][i], wanted(rank, from + i), 1e-5) << "rank " << rank << " element " << i;
      }
      const bool alike = what_.collective != Collective::reduce_scatter && what_.collective != Collective::alltoall;
      if (!alike || what_.collective == Collective::reduce || what_.count == 0) continue;
      EXPECT_EQ(std::memcmp(out_[rank].data(), out_[0].data(), out_[0].size() * sizeof(float)), 0) << "rank " << rank << " has other bits";
    }
  }

 private:
  [[nodiscard]] double wanted(size_t to, uint64_t at) const {
    if (what_.collective == Collective::alltoall) return in_[at / what_.count][to * what_.count + at % what_.count];
    if (what_.collective == Collective::allgather) return in_[at / what_.count][at % what_.count];
    if (what_.collective == Collective::broadcast) return in_[kRoot][at];
    double result = in_[0][at];
    for (size_t rank = 1; rank < in_.size(); ++rank) {
      const double value = in_[rank][at];
      result = what_.op == ReduceOp::max ? std::max(result, value) : result + value;
    }
    return what_.op == ReduceOp::avg ? result / static_cast<double>(in_.size()) : result;
  }

  Job& job_;
  Case what_;
  Vectors in_, out_;
};

constexpr transport::LinkModel kLink = {.latency_ns = kMillisecondNs, .jitter_ns = kMillisecondNs / 4, .rate_bytes_per_s = 125e6};

/// "ra rb sa": regions and sites.
std::vector<std::string> regions_of(std::string_view words) {
  std::vector<std::string> sites;
  for (const std::string_view word : split(words, ' ')) sites.push_back(fmt::format("{}/{}", word[0], word[1]));
  return sites;
}

/// Calls of every size, operator and place in one job whose sites are `letters`.
void expect_right_results(uint64_t seed, std::string_view letters, std::string algorithm, std::span<const Collective> collectives) {
  SCOPED_TRACE(fmt::format("{} by {}", letters, algorithm));
  Settings settings;
  settings.algorithm = std::move(algorithm);
  settings.check_plans = true;
  const std::vector<std::string> sites = letters.find(' ') == std::string_view::npos ? sites_of(letters) : regions_of(letters);
  Job job(seed, static_cast<int32_t>(sites.size()), settings, sites);
  job.world.set_default_link(kLink);
  job.join_all();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  for (const Collective collective : collectives) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{37}, uint64_t{10'007}}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        if (op != ReduceOp::sum && !is_reducing(collective)) continue;
        for (const bool in_place : {false, true}) {
          if (in_place && !may_be_in_place(collective)) continue;
          SCOPED_TRACE(fmt::format("{} of {}, {}{}", name_of(collective), count, name_of(op), in_place ? ", in place" : ""));
          Calls calls(job, {.collective = collective, .count = count, .op = op, .in_place = in_place});
          calls.run();
          calls.expect_right();
          ASSERT_FALSE(testing::Test::HasFailure());
        }
      }
    }
  }
}

TEST(SimHierarchy, GivesRightResultsAndTheSameBits) {
  uint64_t seed = 1;
  for (const std::string_view letters :
       {"aabb", "abababab", "aaabbbbb", "abbabbab", "abcabca", "aaab", "ra ra rb rb sc sc sd sd", "sa rb rc sa rb rc rc"}) {
    expect_right_results(seed++, letters, "hierarchy/3", kCollectivesWithSites);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SimHierarchy, EveryWayAcrossGivesRightResultsAndTheSameBits) {
  uint64_t seed = 20;
  for (const std::string_view letters : {"aabb", "abcabca", "abcdeabcd", "ra ra sb sb tc tc td ud"}) {
    for (const std::string_view across : {"ring", "one_shot", "recursive_doubling"}) {
      std::string algorithms = fmt::format("allreduce:hierarchy/2/0/{}", across);
      if (across == "ring") algorithms += ",reduce_scatter:hierarchy/2/0/ring,allgather:hierarchy/2/1/ring";
      const auto tried = std::span(kCollectivesWithSites).first(across == "ring" ? 3 : 1);
      expect_right_results(seed++, letters, algorithms, tried);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Seconds that a call over two sites takes whose ways out carry so many bytes a second.
double seconds_of(const Case& what, double rate_bytes_per_s, const Settings& settings) {
  Job job(5, static_cast<int32_t>(what.sites.size()), settings, what.sites);
  job.world.set_default_link({.latency_ns = 50'000, .rate_bytes_per_s = 10e9});
  job.join_all();
  if (testing::Test::HasFatalFailure()) return 0;
  std::vector<transport::SimHost> sides[2];
  for (size_t rank = 0; rank < job.ranks(); ++rank) sides[what.sites[rank] == "a" ? 0 : 1].push_back(job.rank(rank).host);
  job.world.add_cut(sides[0], sides[1], rate_bytes_per_s);
  job.world.add_cut(sides[1], sides[0], rate_bytes_per_s);
  Calls calls(job, what);
  const TimeNs begin = job.world.now();
  calls.run();
  calls.expect_right();
  return static_cast<double>(job.world.now() - begin) / 1e9;
}

TEST(SimHierarchy, IsTakenWhereItIsWorthIt) {
  constexpr double kRate = 25e6;
  for (const Collective collective : kCollectivesWithSites) {
    SCOPED_TRACE(name_of(collective));
    const uint64_t blocks = is_by_rank(collective) ? 6 : 1;
    const Case what = {.sites = sites_of("ababab"), .collective = collective, .count = (uint64_t{3} << 20) / blocks};
    const double shares = collective == Collective::alltoall ? 1.5 : is_by_rank(collective) ? 0.5 : 1;  // that cross, of a buffer
    const double bytes = 4.0 * static_cast<double>(what.count * blocks) * shares;
    const double chosen = seconds_of(what, kRate, {}), bound = bytes / kRate;
    EXPECT_LT(chosen, 1.25 * bound);
    if (collective == Collective::alltoall) continue;  // which sends as many bytes without a hierarchy, in more messages
    Settings flat;
    flat.algorithm = is_rooted(collective) ? "chain/16" : "ring/4";
    EXPECT_GT(seconds_of(what, kRate, flat), 1.5 * chosen);
  }
}

}  // namespace
}  // namespace isthmus::sim_test
