// SPDX-License-Identifier: Apache-2.0
// Compressed sums of whole jobs in virtual time: the same bits on every rank, by every algorithm and over every link; errors as the codec
// promises; numbers that are none stay where they are; ranks that ask for different codecs hear of it.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "base/float_types.h"
#include "collectives/registry.h"
#include "sim/job.h"

namespace isthmus::sim_test {
namespace {

using testing::HasSubstr;
using transport::LinkModel;

/// One compressed call of a job, and how the job is made.
struct Case {
  int32_t ranks = 4;
  Collective collective = Collective::allreduce;
  std::string codec = "thc";
  std::string_view algorithm = "";  ///< static storage
  uint64_t count = 30'011;          ///< of allreduce; of reduce-scatter's block
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;
  LinkModel link = {.latency_ns = kMillisecondNs, .rate_bytes_per_s = 125e6};
  std::vector<std::string> sites = {};
  uint64_t seed = 7;
};

using Vectors = std::vector<std::vector<float>>;

Vectors gaussian(const Case& what) {
  const uint64_t elements = what.count * (what.collective == Collective::reduce_scatter ? static_cast<uint64_t>(what.ranks) : 1);
  Vectors in;
  for (int32_t rank = 0; rank < what.ranks; ++rank) {
    std::mt19937 random(static_cast<uint32_t>(rank + 1));
    std::normal_distribution<float> normal;
    in.emplace_back(elements);
    for (float& value : in.back()) value = normal(random);
  }
  return in;
}

/// A job that stays for several calls of one kind.
class CodecJob {
 public:
  explicit CodecJob(const Case& what) : what_(what), job_(what.seed, what.ranks, {}, what.sites) {
    job_.world.set_default_link(LinkModel{.latency_ns = kMillisecondNs, .rate_bytes_per_s = 125e6});
    job_.join_all();  // over the same links in every case: the communicator's number is drawn meanwhile, and decides the random bits
    job_.world.set_default_link(what.link);
  }

  std::shared_ptr<const comm::CodecWish> wish(size_t rank, const std::string& codec, std::shared_ptr<float> residual = nullptr) {
    auto named = job_.rank(rank).process->codecs().get(codec, static_cast<uint32_t>(what_.ranks));
    EXPECT_TRUE(named.ok()) << named.status().text();
    return std::make_shared<const comm::CodecWish>(
        comm::CodecWish{.codec = named.ok() ? *named : nullptr, .algorithm = what_.algorithm, .residual = std::move(residual)});
  }

  /// Each rank's result. With `residuals`: error feedback, a vector for each rank.
  Vectors sum(const Vectors& in, Vectors* residuals = nullptr) {
    const uint64_t block = what_.count;
    Vectors buffers = in, out(in.size(), std::vector<float>(block, -1.0F));
    for (size_t rank = 0; rank < in.size(); ++rank) {
      comm::Request request{.collective = what_.collective, .in = buffers[rank].data(), .count = block, .op = {.op = what_.op}};
      const uint64_t own = what_.collective == Collective::reduce_scatter ? rank * block : 0;
      request.out = what_.in_place ? buffers[rank].data() + own : out[rank].data();
      float* residual = residuals != nullptr ? (*residuals)[rank].data() : nullptr;
      request.wish = wish(rank, what_.codec, std::shared_ptr<float>(std::shared_ptr<void>(), residual));
      job_.submit(rank, request);
      if (testing::Test::HasFatalFailure()) return out;
    }
    EXPECT_TRUE(job_.run_launches());
    for (size_t rank = 0; rank < in.size(); ++rank) {
      EXPECT_TRUE(job_.rank(rank).launch->status().ok()) << job_.rank(rank).launch->status().text();
      const uint64_t own = what_.collective == Collective::reduce_scatter ? rank * block : 0;
      if (what_.in_place) std::copy_n(buffers[rank].begin() + static_cast<std::ptrdiff_t>(own), block, out[rank].begin());
    }
    return out;
  }

  Job& job() { return job_; }

 private:
  Case what_;
  Job job_;
};

/// What every rank should have, in double precision: for reduce-scatter one block after the other.
std::vector<double> exact(const Case& what, const Vectors& in) {
  std::vector<double> sum(in[0].size());
  for (const auto& vector : in) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += vector[i];
  }
  if (what.op == ReduceOp::avg) {
    for (double& value : sum) value /= what.ranks;
  }
  return sum;
}

/// The result of the whole: allreduce's of rank 0 (the others' must be the same bits), reduce-scatter's blocks.
std::vector<float> joined(const Case& what, const Vectors& out) {
  std::vector<float> all;
  for (const auto& part : out) {
    if (what.collective == Collective::reduce_scatter) {
      all.insert(all.end(), part.begin(), part.end());
    } else if (!part.empty()) {
      EXPECT_EQ(std::memcmp(part.data(), out[0].data(), part.size() * sizeof(float)), 0) << "ranks differ";
    }
  }
  return all.empty() ? out[0] : all;
}

double error_of(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    energy += want[i] * want[i];
  }
  return error / energy;
}

std::vector<float> result_of(const Case& what) {
  SCOPED_TRACE(fmt::format("{} {} {} ranks {} count {}", name_of(what.collective), what.algorithm, what.codec, what.ranks, what.count));
  const Vectors in = gaussian(what);
  CodecJob job(what);
  if (testing::Test::HasFatalFailure()) return {};
  const Vectors out = job.sum(in);
  const auto all = joined(what, out);
  const double most = what.codec == "bf16" ? 1e-4 : what.codec == "int8" ? 4e-4 : 0.05;
  EXPECT_LT(error_of(all, exact(what, in)), most);
  return all;
}

std::vector<std::string> sites_of(int32_t ranks, int32_t kinds) {
  std::vector<std::string> sites;
  for (int32_t rank = 0; rank < ranks; ++rank) sites.push_back(fmt::format("s{}", rank % kinds));
  return sites;
}

// Integer sums do not depend on who adds them where: the whole point of the codec.
TEST(SimCompression, EveryAlgorithmGivesTheSameBits) {
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter}) {
    for (const int32_t ranks : {2, 3, 5, 8}) {
      Case what{.ranks = ranks, .collective = collective, .algorithm = "direct"};
      const auto direct = result_of(what);
      for (const plan::Algorithm* each : collectives::compressed_registry()) {
        if (each->collective != collective || each->needs.coding != plan::Coding::sums) continue;
        const std::string_view algorithm = each->name;
        what.algorithm = algorithm;
        what.sites = algorithm == "hierarchy" ? sites_of(ranks, 2) : std::vector<std::string>();
        what.in_place = !what.in_place;
        const auto other = result_of(what);
        EXPECT_EQ(std::memcmp(direct.data(), other.data(), direct.size() * sizeof(float)), 0)
            << name_of(collective) << " " << algorithm << " " << ranks << " ranks";
      }
    }
  }
}

TEST(SimCompression, ArrivalOrderLeavesNoTrace) {
  const auto calm = result_of({});
  for (const LinkModel& link : {LinkModel{.latency_ns = kMillisecondNs, .jitter_ns = 5 * kMillisecondNs, .rate_bytes_per_s = 20e6},
                                LinkModel{.latency_ns = kMillisecondNs, .rate_bytes_per_s = 125e6, .loss = 0.02}}) {
    const auto rough = result_of({.link = link});
    EXPECT_EQ(std::memcmp(calm.data(), rough.data(), calm.size() * sizeof(float)), 0);
  }
}

TEST(SimCompression, EveryCodecAndOddCount) {
  for (const char* codec : {"thc:b=8", "thc:layout=columns", "bf16", "int8", "int4"}) {
    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter}) {
      for (const uint64_t count : {uint64_t{1000}, uint64_t{70'001}}) {
        result_of({.ranks = 3, .collective = collective, .codec = codec, .count = count, .op = ReduceOp::avg, .in_place = count == 1000});
      }
    }
  }
}

TEST(SimCompression, FewElementsAndNone) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{4097}}) {
    for (const std::string_view algorithm : {"direct", "halving", "ring", "root"}) {
      const Case what{.ranks = 3, .codec = "thc:b=8", .algorithm = algorithm, .count = count};
      const Vectors in = gaussian(what);
      CodecJob job(what);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      const auto all = joined(what, job.sum(in));
      EXPECT_TRUE(count == 0 || error_of(all, exact(what, in)) < 1e-3) << count << " " << algorithm;
    }
  }
}

TEST(SimCompression, ManyRanksNeedWiderSums) {
  for (const int32_t ranks : {17, 18, 33}) {
    const auto direct = result_of({.ranks = ranks, .algorithm = "direct", .count = 9000});
    const auto halving = result_of({.ranks = ranks, .algorithm = "halving", .count = 9000});
    EXPECT_EQ(std::memcmp(direct.data(), halving.data(), direct.size() * sizeof(float)), 0) << ranks;
  }
}

TEST(SimCompression, NarrowTypes) {
  const Case what{.ranks = 3, .codec = "thc:b=8"};
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    CodecJob job(what);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    const Vectors in = gaussian(what);
    std::vector<std::vector<uint16_t>> narrow, out;
    for (size_t rank = 0; rank < 3; ++rank) {
      narrow.emplace_back();
      for (const float value : in[rank]) {
        narrow.back().push_back(type == DataType::float16 ? Float16::from_float(value).bits : BFloat16::from_float(value).bits);
      }
      out.emplace_back(what.count);
    }
    for (size_t rank = 0; rank < 3; ++rank) {
      job.job().submit(
          rank,
          {.in = narrow[rank].data(), .out = out[rank].data(), .count = what.count, .type = type, .wish = job.wish(rank, what.codec)});
    }
    ASSERT_TRUE(job.job().run_launches());
    std::vector<float> wide;
    for (const uint16_t value : out[0]) wide.push_back(type == DataType::float16 ? Float16{value}.to_float() : BFloat16{value}.to_float());
    EXPECT_LT(error_of(wide, exact(what, in)), 1e-3) << name_of(type);
    EXPECT_EQ(out[1], out[0]);
    EXPECT_EQ(out[2], out[0]);
  }
}

TEST(SimCompression, WhatIsNoNumberStaysInItsBlocks) {
  for (const char* codec : {"thc", "int8", "int4"}) {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const Case what{.ranks = 3, .codec = codec};
      const uint64_t block = std::string_view(codec) == "thc" ? 4096 : 32;
      const uint64_t at = 9'000;
      Vectors in = gaussian(what);
      std::fill_n(in[0].begin() + 4096 * 5, 4096, 0.0F);
      std::fill_n(in[1].begin() + 4096 * 5, 4096, 0.0F);
      std::fill_n(in[2].begin() + 4096 * 5, 4096, -0.0F);
      in[1][at] = poison;
      CodecJob job(what);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      const auto all = joined(what, job.sum(in));
      for (uint64_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(std::isnan(all[i]), i / block == at / block) << codec << " element " << i;
        ASSERT_TRUE(i / 4096 != 5 || std::bit_cast<uint32_t>(all[i]) == 0) << "zeros are exact";
      }
    }
  }
}

// What one call lacks the next one adds: the mean of many calls comes closer as 1 / calls^2 instead of 1 / calls.
TEST(SimCompression, FeedbackMakesUpForWhatWasLost) {
  const auto mean_error = [](const char* codec, bool feeds_back) {
    const Case what{.ranks = 2, .codec = codec, .count = 8192};
    const Vectors in = gaussian(what);
    CodecJob job(what);
    Vectors residuals(2, std::vector<float>(what.count));
    std::vector<double> total(what.count);
    constexpr int kCalls = 32;
    for (int call = 0; call < kCalls; ++call) {
      const Vectors out = job.sum(in, feeds_back ? &residuals : nullptr);
      for (size_t i = 0; i < total.size(); ++i) total[i] += out[0][i];
    }
    std::vector<float> mean;
    for (const double value : total) mean.push_back(static_cast<float>(value / kCalls));
    return error_of(mean, exact(what, in));
  };
  const double with = mean_error("thc:ef=on", true), without = mean_error("thc", false),
               biased = mean_error("thc:prescale=off,p=1/32", false);
  EXPECT_LT(with, 5e-5);
  EXPECT_LT(without, 0.03 / 32 * 1.5);
  EXPECT_GT(without, 4 * with);
  EXPECT_GT(biased, 1.2 * without) << "clamping without making up for it is not unbiased";
}

TEST(SimCompression, RanksWithDifferentCodecsHearOfIt) {
  const Case what{.ranks = 2};
  CodecJob job(what);
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  Vectors in = gaussian(what), out = in;
  for (size_t rank = 0; rank < 2; ++rank) {
    comm::Request request{.in = in[rank].data(), .out = out[rank].data(), .count = what.count};
    request.wish = job.wish(rank, rank == 0 ? "thc" : "thc:b=8");
    job.job().submit(rank, request);
  }
  ASSERT_TRUE(job.job().run_launches());
  for (size_t rank = 0; rank < 2; ++rank) {
    const Status status = job.job().rank(rank).launch->status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.text(), HasSubstr("as thc:b=8")) << "rank " << rank;
    EXPECT_THAT(status.text(), HasSubstr("as thc")) << "rank " << rank;
  }
}

TEST(SimCompression, SaysWhatItSentAndLost) {
  const Case what{.ranks = 4, .count = 1 << 20};
  CodecJob job(what);
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  job.sum(gaussian(what));
  comm::Compression& compression = job.job().rank(1).communicator->compression();
  const exec::Coded& last = compression.calls().last;
  // 4 bits up, 8 bits down, for three quarters of the elements; the scales are one float for 4096.
  const double payload = 0.75 * static_cast<double>(what.count) * 1.5;
  EXPECT_NEAR(static_cast<double>(last.sent_bytes), payload, 0.01 * payload);
  EXPECT_EQ(compression.calls().all.calls, 1U);
  EXPECT_NEAR(last.error / last.energy, 0.022, 0.004);
  EXPECT_EQ(compression.used()->text, "thc");
  EXPECT_FALSE(compression.algorithm().empty());
}

}  // namespace
}  // namespace isthmus::sim_test
