// SPDX-License-Identifier: Apache-2.0
// The matrix of mismatches: two ranks make every pair of different calls; both must fail within a second, each naming both calls, also a
// side that had returned; and so do their next calls. Prints one line per pair. The calls differ in collective, count, type, operator,
// root, order or kind (collective, send, receive).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

constexpr int64_t kPromisedUs = 1'000'000 * kPatience;

struct Kind {
  const char* name;
  std::vector<const char*> words;  ///< how the error text must name it
  ncclResult_t (*call)(const float* in, float* out, ncclComm_t comm);
  bool transfers = false;       ///< no collective
  bool rank_0_returns = false;  ///< rank 0 needs nobody for it, so that what it does next decides
};

int other_rank(ncclComm_t comm) {
  int rank = -1;
  ncclCommUserRank(comm, &rank);
  return 1 - rank;
}

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
    {"alltoall",
     {"alltoall count 100 float"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclAlltoAll(in, out, 100, ncclFloat, comm, nullptr); }},
    {"broadcast root 0",
     {"broadcast count 100 float root 0"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclBroadcast(in, out, 100, ncclFloat, 0, comm, nullptr); },
     false,
     true},
    {"broadcast root 1",
     {"broadcast count 100 float root 1"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclBroadcast(in, out, 100, ncclFloat, 1, comm, nullptr); }},
    {"reduce root 0",
     {"reduce count 100 float sum root 0"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclReduce(in, out, 100, ncclFloat, ncclSum, 0, comm, nullptr); }},
    {"reduce root 1",
     {"reduce count 100 float sum root 1"},
     [](const float* in, float* out, ncclComm_t comm) { return ncclReduce(in, out, 100, ncclFloat, ncclSum, 1, comm, nullptr); },
     false,
     true},
    {"recv",
     {"recv #0 from rank", "count 10 float"},
     [](const float*, float* out, ncclComm_t comm) { return ncclRecv(out, 10, ncclFloat, other_rank(comm), comm, nullptr); },
     true},
    {"recv type",
     {"recv #0 from rank", "count 200000 int32"},
     [](const float*, float* out, ncclComm_t comm) { return ncclRecv(out, 200'000, ncclInt32, other_rank(comm), comm, nullptr); },
     true},
    {"send large",
     {"send #0 to rank", "count 200000 float"},
     [](const float* in, float*, ncclComm_t comm) { return ncclSend(in, 200'000, ncclFloat, other_rank(comm), comm, nullptr); },
     true},
};

// Waits for the error of a call that had returned.
ncclResult_t outcome(ncclResult_t result, ncclComm_t comm) {
  for (const int64_t until = moment_us() + 5 * kPromisedUs; result == ncclSuccess && moment_us() < until; usleep(500)) {
    ncclCommGetAsyncError(comm, &result);
  }
  return result;
}

// Notes how the call ended, and that the next one is refused as well.
void note_failure(Ending& ending, ncclResult_t result, ncclComm_t comm) {
  result = outcome(result, comm);
  note(ending, result);
  float value = 1;
  if (ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr) != result) {
    ending.result = ncclInternalError;
    std::strncpy(ending.text.data(), "the next call is not refused", ending.text.size() - 1);
  }
}

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
      if (&first >= &second || (first.rank_0_returns && second.transfers)) continue;
      const auto endings = run_team(2, [&](int32_t rank, ncclComm_t comm, Ending& ending) {
        std::vector<float> in(400'000, 1), out(400'000);
        ending.before_us = moment_us();
        note_failure(ending, (rank == 0 ? first : second).call(in.data(), out.data(), comm), comm);
      });
      ASSERT_EQ(endings.size(), 2U);
      int64_t slowest_us = 0;
      for (size_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(endings[rank].result, ncclInvalidUsage)
            << first.name << " against " << second.name << ", rank " << rank << ": " << endings[rank].text.data();
        expect_named(endings[rank], rank == 0 ? first : second, rank == 0 ? second : first);
        slowest_us = std::max(slowest_us, endings[rank].moment_us - endings[rank].before_us);
      }
      EXPECT_LT(slowest_us, kPromisedUs) << first.name << " against " << second.name;
      std::printf("%-18s against %-18s both named, %7.1f ms\n", first.name, second.name, static_cast<double>(slowest_us) / 1000);
    }
  }
}

// Both have returned before either has seen the other's message, and make no other call: asking for the error is what finds it.
TEST(Mismatch, BothSidesHadReturned) {
  const auto kind = [](std::string_view name) {
    return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& one) { return one.name == name; });
  };
  const Kind broadcast = kind("broadcast root 0"), reduce = kind("reduce root 0");
  for (int again = 0; again < 30; ++again) {
    const auto endings = run_team(2, [&](int32_t rank, ncclComm_t comm, Ending& ending) {
      std::vector<float> in(100, 1), out(100);
      for (int call = 0; call < 3; ++call) ncclAllReduce(in.data(), out.data(), 1, ncclFloat, ncclSum, comm, nullptr);
      ending.before_us = moment_us();
      note_failure(ending, (rank == 0 ? broadcast : reduce).call(in.data(), out.data(), comm), comm);
    });
    ASSERT_EQ(endings.size(), 2U);
    for (size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(endings[rank].result, ncclInvalidUsage) << "try " << again << ", rank " << rank << ": " << endings[rank].text.data();
      EXPECT_LT(endings[rank].moment_us - endings[rank].before_us, kPromisedUs);
    }
  }
}

void expect_both_named(const std::vector<Ending>& endings, const std::vector<std::string>& words) {
  ASSERT_EQ(endings.size(), 2U);
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclInvalidUsage) << "rank " << ending.rank << ": " << ending.text.data();
    EXPECT_LT(ending.moment_us - ending.before_us, kPromisedUs);
    for (const std::string& word : words) {
      EXPECT_NE(std::string(ending.text.data()).find(word), std::string::npos) << word << ": " << ending.text.data();
    }
  }
}

// A small send has returned when its receiver turns out to want something else.
TEST(Mismatch, SmallSendAgainstAnotherReceive) {
  struct Case {
    size_t count;
    ncclDataType_t type;
    const char* words;
  };
  for (const Case& wanted : {Case{11, ncclFloat, "count 11 float"}, Case{9, ncclFloat, "count 9 float"},
                             Case{10, ncclInt32, "count 10 int32"}, Case{0, ncclFloat, "count 0 float"}}) {
    const auto endings = run_team(2, [&](int32_t rank, ncclComm_t comm, Ending& ending) {
      std::vector<float> data(100, 1);
      ending.before_us = moment_us();
      const ncclResult_t result = rank == 0 ? ncclSend(data.data(), 10, ncclFloat, 1, comm, nullptr)
                                            : ncclRecv(data.data(), wanted.count, wanted.type, 0, comm, nullptr);
      note_failure(ending, result, comm);
    });
    expect_both_named(endings, {"send #0 to rank 1 count 10 float", "recv #0 from rank 0", wanted.words});
  }
}

// The root of a small broadcast has returned, which is no error yet: its next call shows that the two wait for each other.
TEST(Mismatch, NextCallOfASideThatHadReturned) {
  const auto endings = run_team(2, [](int32_t rank, ncclComm_t comm, Ending& ending) {
    std::vector<float> in(100, 1), out(100);
    ncclResult_t result = ncclSuccess;
    if (rank == 0) {
      result = ncclBroadcast(in.data(), out.data(), 100, ncclFloat, 0, comm, nullptr);
      usleep(500'000);
      ending.before_us = moment_us();
      if (result == ncclSuccess) result = ncclAllReduce(in.data(), out.data(), 100, ncclFloat, ncclSum, comm, nullptr);
    } else {
      ending.before_us = moment_us() + 500'000;
      result = ncclRecv(out.data(), 10, ncclFloat, 0, comm, nullptr);
    }
    note_failure(ending, result, comm);
  });
  expect_both_named(endings, {"call #1 allreduce count 100 float sum", "recv #0 from rank 0 count 10 float"});
}

// A send that is read in place ends only by its receiver, however small. Within a process every send from 8 KiB on is.
TEST(Mismatch, SendReadInPlaceAgainstCollective) {
  const auto endings = run_team(1, [](int32_t, ncclComm_t, Ending& ending) {
    std::array<ncclComm_t, 2> comms{};
    note(ending, ncclCommInitAll(comms.data(), 2, nullptr));
    if (ending.result != ncclSuccess) return;
    std::vector<float> sent(20'000, 1), summed(100, 1);
    ending.before_us = moment_us();
    ncclResult_t other = ncclSuccess;
    std::thread sender([&] { other = ncclSend(sent.data(), sent.size(), ncclFloat, 1, comms[0], nullptr); });
    note_failure(ending, ncclAllReduce(summed.data(), summed.data(), 100, ncclFloat, ncclSum, comms[1], nullptr), comms[1]);
    sender.join();
    if (other != ncclInvalidUsage) ending.result = ncclInternalError;
  });
  ASSERT_EQ(endings.size(), 1U);
  EXPECT_EQ(endings[0].result, ncclInvalidUsage) << endings[0].text.data();
  EXPECT_LT(endings[0].moment_us - endings[0].before_us, kPromisedUs);
  for (const char* words : {"call #0 allreduce count 100 float sum", "send #0 to rank 1 count 20000 float"}) {
    EXPECT_NE(std::string(endings[0].text.data()).find(words), std::string::npos) << endings[0].text.data();
  }
}

// The first calls agree, the next two come in crossed order.
TEST(Mismatch, CrossedOrder) {
  const auto endings = run_team(2, [](int32_t rank, ncclComm_t comm, Ending& ending) {
    std::vector<float> in(100, 1), out(200);
    ncclResult_t result = ncclAllReduce(in.data(), out.data(), 100, ncclFloat, ncclSum, comm, nullptr);
    ending.before_us = moment_us();
    for (int turn = 0; turn < 2 && result == ncclSuccess; ++turn) {
      result = (turn == rank) ? ncclAllGather(in.data(), out.data(), 100, ncclFloat, comm, nullptr)
                              : ncclAllReduce(in.data(), out.data(), 100, ncclFloat, ncclMax, comm, nullptr);
    }
    note_failure(ending, result, comm);
  });
  expect_both_named(endings, {"call #1 allgather count 100 float", "call #1 allreduce count 100 float max"});
}

// A receive that is served late, and a collective after it: slow, but right.
TEST(Mismatch, LateSendIsNone) {
  const auto endings = run_team(2, [](int32_t rank, ncclComm_t comm, Ending& ending) {
    std::vector<float> in(100, 1), out(100);
    ending.before_us = moment_us();
    ncclResult_t result = ncclSuccess;
    if (rank == 0) {
      usleep(800'000);
      result = ncclSend(in.data(), 100, ncclFloat, 1, comm, nullptr);
    } else {
      result = ncclRecv(out.data(), 100, ncclFloat, 0, comm, nullptr);
    }
    if (result == ncclSuccess) result = ncclAllReduce(in.data(), out.data(), 100, ncclFloat, ncclSum, comm, nullptr);
    note(ending, result);
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclSuccess) << ending.text.data();
}

}  // namespace
}  // namespace isthmus::proc_test
