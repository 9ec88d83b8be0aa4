// SPDX-License-Identifier: Apache-2.0
// The matrix of mismatches: two ranks make every pair of different calls; both must fail within a second, each naming both calls, also a
// side that had returned. Prints one line per pair. The calls differ in collective, count, type, operator, root or order.
#include <gtest/gtest.h>

#include <string>

#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

struct Kind {
  const char* name;
  std::vector<const char*> words;  ///< how the error text must name it
  ncclResult_t (*call)(const float* in, float* out, ncclComm_t comm);
};

const Kind kKinds[] = {
    {"allreduce",
     {"allreduce count 100 float sum"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAllReduce(in, out, 100, ncclFloat, ncclSum, comm, nullptr); }},
    {"allreduce count",
     {"allreduce count 101 float sum"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAllReduce(in, out, 101, ncclFloat, ncclSum, comm, nullptr); }},
    {"allreduce large",
     {"allreduce count 200000 float sum"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAllReduce(in, out, 200'000, ncclFloat, ncclSum, comm, nullptr); }},
    {"allreduce type",
     {"allreduce count 100 int32 sum"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAllReduce(in, out, 100, ncclInt32, ncclSum, comm, nullptr); }},
    {"allreduce op",
     {"allreduce count 100 float max"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAllReduce(in, out, 100, ncclFloat, ncclMax, comm, nullptr); }},
    {"reduce_scatter",
     {"reduce_scatter count 100 float sum"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclReduceScatter(in, out, 100, ncclFloat, ncclSum, comm, nullptr); }},
    {"allgather",
     {"allgather count 100 float"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAllGather(in, out, 100, ncclFloat, comm, nullptr); }},
    {"broadcast root 0",
     {"broadcast count 100 float root 0"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclBroadcast(in, out, 100, ncclFloat, 0, comm, nullptr); }},
    {"broadcast root 1",
     {"broadcast count 100 float root 1"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclBroadcast(in, out, 100, ncclFloat, 1, comm, nullptr); }},
    {"reduce root 0",
     {"reduce count 100 float sum root 0"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclReduce(in, out, 100, ncclFloat, ncclSum, 0, comm, nullptr); }},
    {"reduce root 1",
     {"reduce count 100 float sum root 1"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclReduce(in, out, 100, ncclFloat, ncclSum, 1, comm, nullptr); }},
};

void expect_named(const Ending& ending, const Kind& mine, const Kind& theirs) {
  const std::string text = ending.text.data();
  for (const Kind* kind : {&mine, &theirs}) {
    for (const char* words : kind->words)
      EXPECT_NE(text.find(words), std::string::npos) << mine.name << " against " << theirs.name << ": " << text;
  }
}

TEST(Mismatch, EveryPairFailsOnBothSidesNamingBothCalls) {
  for (const Kind& first : kKinds) {
    for (const Kind& second : kKinds) {
      if (&first >= &second) continue;
      const auto endings = run_team(2, [&](int32_t rank, ncclComm_t comm, Ending& ending) {
        std::vector<float> in(400'000, 1), out(400'000);
        ending.before_us = moment_us();
        ncclResult_t result = (rank == 0 ? first : second).call(in.data(), out.data(), comm);
        while (result == ncclSuccess && moment_us() - ending.before_us < 5'000'000) {  // it had returned: the error comes later
          usleep(500);
          ncclCommGetAsyncError(comm, &result);
        }
        note(ending, result);
      });
      ASSERT_EQ(endings.size(), 2U);
      int64_t slowest_us = 0;
      for (size_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(endings[rank].result, ncclInvalidUsage)
            << first.name << " against " << second.name << ", rank " << rank << ": " << endings[rank].text.data();
        expect_named(endings[rank], rank == 0 ? first : second, rank == 0 ? second : first);
        slowest_us = std::max(slowest_us, endings[rank].moment_us - endings[rank].before_us);
      }
      EXPECT_LT(slowest_us, 1'000'000) << first.name << " against " << second.name;
      std::printf("%-18s against %-18s both named, %7.1f ms\n", first.name, second.name, static_cast<double>(slowest_us) / 1000);
    }
  }
}

}  // namespace
}  // namespace isthmus::proc_test
