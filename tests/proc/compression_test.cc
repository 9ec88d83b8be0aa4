// SPDX-License-Identifier: Apache-2.0
// Compressed sums as programs see them, in real processes over shared memory: calls, communicators and rules that ask for codecs, groups
// and streams, error feedback and its checkpoints, what is refused and how, and what the library says about it all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "isthmus.h"
#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

constexpr size_t kCount = 600'001;
constexpr int32_t kRanks = 3;

/// A rank's elements: a fixed wave and a part of its own.
std::vector<float> elements(int32_t rank, size_t count = kCount) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)) + 0.5 * std::cos(static_cast<double>(i * (rank + 2))));
  }
  return values;
}

/// Squared error over squares of the sum of all ranks' elements (times `scale`).
double error_of(const std::vector<float>& got, double scale = 1, int32_t ranks = kRanks) {
  std::vector<double> sum(got.size());
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> part = elements(rank, got.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scale * part[i];
  }
  double error = 0, energy = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    error += (got[i] - sum[i]) * (got[i] - sum[i]);
    energy += sum[i] * sum[i];
  }
  return error / energy;
}

isthmusCompressionInfo_t info_of(ncclComm_t comm) {
  isthmusCompressionInfo_t info = ISTHMUS_COMPRESSION_INFO_INITIALIZER;
  EXPECT_EQ(isthmusCommGetCompressionInfo(comm, &info), ncclSuccess) << ncclGetLastError(comm);
  return info;
}

isthmusCompression_t with(const char* codec) {
  isthmusCompression_t how = ISTHMUS_COMPRESSION_INITIALIZER;
  how.codec = codec;
  return how;
}

/// Runs the body on every rank; its expectations are the test's.
void on_ranks(const std::function<void(int32_t rank, ncclComm_t comm)>& body, const std::function<void(int32_t)>& prepare = {}) {
  const auto endings = run_team(Team{.ranks = kRanks,
                                     .body =
                                         [&](int32_t rank, ncclComm_t comm, Ending& ending) {
                                           body(rank, comm);
                                           ending.result = testing::Test::HasFailure() ? ncclInternalError : ncclSuccess;
                                         },
                                     .limit_ms = 30'000,
                                     .prepare = prepare});
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclSuccess) << "rank " << ending.rank << ": " << ending.words();
}

TEST(Compression, CallsWithEveryCodec) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    const struct {
      const char* codec;
      double most;
    } kCodecs[] = {{"thc:b=4", 0.03}, {"thc:b=8", 3e-4}, {"bf16", 2e-5}, {"int8", 1e-4}, {"int4", 0.03}, {"none", 1e-12}};
    const std::vector<float> in = elements(rank);
    for (const auto& each : kCodecs) {
      std::vector<float> out(kCount);
      const isthmusCompression_t how = with(each.codec);
      ASSERT_EQ(isthmusAllReduceCompressed(in.data(), out.data(), kCount, ncclFloat, ncclAvg, &how, comm, nullptr), ncclSuccess)
          << ncclGetLastError(comm);
      EXPECT_LT(error_of(out, 1.0 / kRanks), each.most) << each.codec;
    }
    EXPECT_EQ(info_of(comm).compressedCalls, 5U);
    std::vector<float> out(kCount / kRanks);
    ASSERT_EQ(isthmusReduceScatterCompressed(in.data(), out.data(), out.size(), ncclFloat, ncclSum, nullptr, comm, nullptr), ncclSuccess);
    const isthmusCompressionInfo_t info = info_of(comm);
    EXPECT_EQ(info.compressed, 1);
    EXPECT_STREQ(info.codec, "thc") << "what NULL means";
    EXPECT_NEAR(info.measuredError, info.predictedError, 0.5 * info.predictedError);
    EXPECT_GT(info.sentBytes, 2 * out.size() / 2) << "4 bits for two thirds";
    EXPECT_LT(info.sentBytes, 2 * out.size() * 6 / 10);
  });
}

TEST(Compression, GroupsAndStreams) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    const std::vector<float> in = elements(rank);
    std::vector<float> a(kCount), b(kCount), exact(kCount);
    const isthmusCompression_t thc = with("thc:b=8"), bf16 = with("bf16");
    cudaStream_t stream = nullptr;
    ASSERT_EQ(isthmusStreamCreate(&stream), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(isthmusAllReduceCompressed(in.data(), a.data(), kCount, ncclFloat, ncclSum, &thc, comm, stream), ncclSuccess);
    ASSERT_EQ(isthmusAllReduceCompressed(in.data(), b.data(), kCount, ncclFloat, ncclSum, &bf16, comm, stream), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(in.data(), exact.data(), kCount, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    ASSERT_EQ(isthmusStreamSynchronize(stream), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_LT(error_of(a), 3e-4);
    EXPECT_LT(error_of(b), 2e-5);
    EXPECT_LT(error_of(exact), 1e-12);
    EXPECT_EQ(isthmusStreamDestroy(stream), ncclSuccess);
  });
}

TEST(Compression, ACommunicatorsCodec) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    const std::vector<float> in = elements(rank);
    std::vector<float> out(kCount);
    const isthmusCompression_t how = with("thc");
    ASSERT_EQ(isthmusCommSetCompression(comm, &how), ncclSuccess) << ncclGetLastError(comm);
    ASSERT_EQ(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(info_of(comm).compressed, 1);
    EXPECT_GT(error_of(out), 1e-4) << "it was not compressed";
    ASSERT_EQ(ncclAllReduce(in.data(), out.data(), 1000, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
    const isthmusCompressionInfo_t info = info_of(comm);
    EXPECT_EQ(info.compressed, 0);
    EXPECT_EQ(info.refusedForSize, 1U);
    EXPECT_THAT(info.refusal, testing::HasSubstr("4000 bytes"));
    ASSERT_EQ(isthmusCommSetCompression(comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_LT(error_of(out), 1e-12);
  });
}

/// Rank 0 is at one site, the others at another, whoever says so.
void check_rules_by_site(const std::function<void(int32_t rank)>& say_site) {
  const auto prepare = [&](int32_t rank) {
    setenv("ISTHMUS_COMPRESSION", "thc:b=8 min=64K crossing", 1);
    say_site(rank);
  };
  on_ranks(
      [](int32_t rank, ncclComm_t comm) {
        const std::vector<float> in = elements(rank);
        std::vector<float> out(kCount);
        ASSERT_EQ(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
        EXPECT_LT(error_of(out), 3e-4);
        EXPECT_STREQ(info_of(comm).codec, "thc:b=8");
        ASSERT_EQ(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat, ncclMax, comm, nullptr), ncclSuccess);
        EXPECT_EQ(info_of(comm).refusedForOp, 1U);
        // Ranks 1 and 2 are at one site, so nothing that they do by themselves crosses.
        ncclComm_t near = nullptr;
        ASSERT_EQ(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, rank, &near, nullptr), ncclSuccess);
        if (near == nullptr) return;
        ASSERT_EQ(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat, ncclSum, near, nullptr), ncclSuccess);
        EXPECT_EQ(info_of(near).compressedCalls, 0U);
        EXPECT_EQ(ncclCommDestroy(near), ncclSuccess);
      },
      prepare);
}

TEST(Compression, RulesForProgramsThatKnowNothing) {
  check_rules_by_site([](int32_t rank) { setenv("ISTHMUS_SITE", rank == 0 ? "alpha" : "beta", 1); });
}

TEST(Compression, SitesFromTheSchedulerWhereNoSettingNamesThem) {
  check_rules_by_site([](int32_t rank) {
    setenv("SLURM_TOPOLOGY_ADDR", rank == 0 ? "left.n0" : "right.n1", 1);
    setenv("SLURM_TOPOLOGY_ADDR_PATTERN", "switch.node", 1);
    setenv("ISTHMUS_SLURM_LEVELS", "building", 1);
  });
}

TEST(Compression, FeedbackComesAndGoesAndMakesUp) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    constexpr size_t kFew = 10'000;
    const std::vector<float> in = elements(rank, kFew);
    isthmusFeedback_t feedback = nullptr;
    ASSERT_EQ(isthmusFeedbackCreate(&feedback, kFew), ncclSuccess);
    isthmusCompression_t how = with("thc:ef=on");
    how.feedback = feedback;
    std::vector<double> total(kFew);
    std::vector<float> out(kFew), kept(kFew);
    const auto calls = [&](int count) {
      for (int call = 0; call < count; ++call) {
        ASSERT_EQ(isthmusAllReduceCompressed(in.data(), out.data(), kFew, ncclFloat, ncclSum, &how, comm, nullptr), ncclSuccess)
            << ncclGetLastError(comm);
        for (size_t i = 0; i < kFew; ++i) total[i] += out[i];
      }
    };
    calls(8);
    // As after a restart from a checkpoint.
    ASSERT_EQ(isthmusFeedbackExport(feedback, kept.data(), kFew), ncclSuccess);
    EXPECT_NE(kept, std::vector<float>(kFew));
    ASSERT_EQ(isthmusFeedbackReset(feedback), ncclSuccess);
    std::vector<float> zeros(kFew, 1);
    ASSERT_EQ(isthmusFeedbackExport(feedback, zeros.data(), kFew), ncclSuccess);
    EXPECT_EQ(zeros, std::vector<float>(kFew));
    ASSERT_EQ(isthmusFeedbackImport(feedback, kept.data(), kFew), ncclSuccess);
    calls(8);
    std::vector<float> mean;
    for (const double value : total) mean.push_back(static_cast<float>(value / 16));
    EXPECT_LT(error_of(mean), 3e-4) << "without feedback 0.0013";
    ASSERT_EQ(isthmusFeedbackDestroy(feedback), ncclSuccess);
    EXPECT_EQ(isthmusFeedbackDestroy(feedback), ncclInvalidArgument);
  });
}

// The second rank makes its call only when the first has looked around, so that call is under way for certain.
TEST(Compression, FeedbackThatACallUsesIsLeftAlone) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    const std::vector<float> in = elements(rank);
    std::vector<float> out(kCount), kept(kCount);
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &other, nullptr), ncclSuccess);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(isthmusStreamCreate(&stream), ncclSuccess);
    isthmusCompression_t how = with("thc:ef=on");
    ASSERT_EQ(isthmusFeedbackCreate(&how.feedback, kCount), ncclSuccess);
    const auto sum = [&](ncclComm_t on) {
      return isthmusAllReduceCompressed(in.data(), out.data(), kCount, ncclFloat, ncclSum, &how, on, stream);
    };
    if (rank == 1) {
      ASSERT_EQ(ncclRecv(kept.data(), 1, ncclFloat, 0, comm, nullptr), ncclSuccess);
    }
    ASSERT_EQ(sum(comm), ncclSuccess);
    if (rank == 0) {
      EXPECT_EQ(isthmusFeedbackDestroy(how.feedback), ncclInvalidUsage);
      EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("synchronize its stream first"), std::string::npos);
      EXPECT_EQ(isthmusFeedbackReset(how.feedback), ncclInvalidUsage);
      EXPECT_EQ(isthmusFeedbackExport(how.feedback, kept.data(), kCount), ncclInvalidUsage);
      EXPECT_EQ(isthmusFeedbackImport(how.feedback, kept.data(), kCount), ncclInvalidUsage);
      EXPECT_EQ(sum(other), ncclInvalidUsage) << "the other communicator's calls do not wait for this one's";
      ASSERT_EQ(ncclSend(in.data(), 1, ncclFloat, 1, comm, nullptr), ncclSuccess);
    }
    ASSERT_EQ(sum(comm), ncclSuccess) << "those of one communicator come after each other";
    ASSERT_EQ(isthmusStreamSynchronize(stream), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(sum(other), ncclSuccess);
    ASSERT_EQ(isthmusStreamSynchronize(stream), ncclSuccess) << ncclGetLastError(other);
    EXPECT_EQ(isthmusFeedbackDestroy(how.feedback), ncclSuccess);
    EXPECT_EQ(isthmusStreamDestroy(stream), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// Groups begin at any unit where blocks of a reduce-scatter do.
TEST(Compression, BlocksOfAnySizeWithTheLargestGroups) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    for (const size_t count : {8193U, 8256U, 12353U, 20000U}) {
      const std::vector<float> in = elements(rank, kRanks * count);
      std::vector<float> out(count + 1, 7), exact(count);
      const isthmusCompression_t how = with("thc:b=8,group=8192");
      ASSERT_EQ(isthmusReduceScatterCompressed(in.data(), out.data(), count, ncclFloat, ncclSum, &how, comm, nullptr), ncclSuccess);
      ASSERT_EQ(ncclReduceScatter(in.data(), exact.data(), count, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
      double error = 0, energy = 0;
      for (size_t i = 0; i < count; ++i) {
        error += std::pow(double{out[i]} - exact[i], 2);
        energy += std::pow(double{exact[i]}, 2);
      }
      EXPECT_LT(error / energy, 1e-3) << count;
      EXPECT_EQ(out[count], 7) << count;
    }
  });
}

/// One wrong call, and a part of what is said about it.
struct Wrong {
  const char* part;
  std::function<void(isthmusCompression_t& how)> change;
  ncclDataType_t type = ncclFloat;
  ncclRedOp_t op = ncclSum;
};

TEST(Compression, WrongArgumentsAreRefusedWithReasons) {
  on_ranks([](int32_t rank, ncclComm_t comm) {
    isthmusFeedback_t few = nullptr;
    ASSERT_EQ(isthmusFeedbackCreate(&few, 10), ncclSuccess);
    const Wrong kWrong[] = {
        {"no codec", [](auto& how) { how.codec = "zip"; }},
        {"2, 3, 4 or 8", [](auto& how) { how.codec = "thc:b=5"; }},
        {"no algorithm of compressed sums", [](auto& how) { how.algorithm = "tree"; }},
        {"ISTHMUS_COMPRESSION_INITIALIZER", [](auto& how) { how.size = 3; }},
        {"there is none", [](auto& how) { how.codec = "thc:ef=on"; }},
        {"ef=on", [&](auto& how) { how.feedback = few; }},
        {"made for 10 elements", [&](auto& how) { how.codec = "thc:ef=on", how.feedback = few; }},
        {"not a handle", [](auto& how) { how.codec = "bf16", how.feedback = reinterpret_cast<isthmusFeedback_t>(uintptr_t{99}); }},
        {"not int32", [](auto& how) { how.required = 1; }, ncclInt32},
        {"not max", [](auto& how) { how.required = 1; }, ncclFloat, ncclMax},
        {"less than the 4096", [](auto& how) { how.required = 1, how.minBytes = 4096; }},
    };
    std::vector<float> data(1000, 1), out(1000);
    for (const Wrong& wrong : kWrong) {
      isthmusCompression_t how = ISTHMUS_COMPRESSION_INITIALIZER;
      wrong.change(how);
      EXPECT_EQ(isthmusAllReduceCompressed(data.data(), out.data(), 1000, wrong.type, wrong.op, &how, comm, nullptr), ncclInvalidArgument)
          << wrong.part;
      EXPECT_THAT(ncclGetLastError(comm), testing::HasSubstr(wrong.part));
    }
    isthmusCompression_t kept = with("bf16");
    kept.feedback = few;
    EXPECT_EQ(isthmusCommSetCompression(comm, &kept), ncclInvalidArgument);
    EXPECT_EQ(isthmusCommGetCompressionInfo(comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(isthmusFeedbackCreate(nullptr, 10), ncclInvalidArgument);
    EXPECT_EQ(isthmusFeedbackExport(few, data.data(), 9), ncclInvalidArgument);
    EXPECT_EQ(isthmusFeedbackImport(few, nullptr, 10), ncclInvalidArgument);
    EXPECT_EQ(isthmusFeedbackReset(nullptr), ncclInvalidArgument);
    Ending ending;
    EXPECT_TRUE(sum_is_right(rank, kRanks, comm, 1000, ending)) << "the communicator must have stayed usable";
    EXPECT_EQ(isthmusFeedbackDestroy(few), ncclSuccess);
  });
}

TEST(Compression, WrongRulesFailAtTheStart) {
  const auto endings = run_team(Team{.ranks = 2,
                                     .body = [](int32_t, ncclComm_t, Ending&) {},
                                     .prepare = [](int32_t) { setenv("ISTHMUS_COMPRESSION", "thc min=lots", 1); }});
  for (const Ending& ending : endings) {
    EXPECT_NE(ending.result, ncclSuccess);
    EXPECT_TRUE(ending.says("ISTHMUS_COMPRESSION")) << ending.words();
  }
}

TEST(Compression, RanksThatAskForDifferentCodecsAllFail) {
  const auto endings = run_team(2, [](int32_t rank, ncclComm_t comm, Ending& ending) {
    const std::vector<float> in = elements(rank);
    std::vector<float> out(kCount);
    const isthmusCompression_t how = with(rank == 0 ? "thc" : "int4");
    note(ending, isthmusAllReduceCompressed(in.data(), out.data(), kCount, ncclFloat, ncclSum, &how, comm, nullptr));
  });
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclInvalidUsage) << ending.words();
    EXPECT_TRUE(ending.says("as thc") && ending.says("as int4")) << ending.words();
  }
}

}  // namespace
}  // namespace isthmus::proc_test
