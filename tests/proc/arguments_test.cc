// SPDX-License-Identifier: Apache-2.0
// Wrong arguments on a working communicator: each is refused with ncclInvalidArgument and a text that says what was wrong, and the
// communicator works afterwards.
#include <gtest/gtest.h>

#include <string>

#include "isthmus.h"
#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

struct Buffers {
  std::vector<float> in = std::vector<float>(1000, 1);
  std::vector<float> out = std::vector<float>(1000, 0);
};

struct Wrong {
  const char* name;
  const char* part;  ///< of the error text
  ncclResult_t (*call)(Buffers& b, ncclComm_t comm);
};

template <typename T>
T number(int value) {
  return static_cast<T>(value);
}

template <typename T>
T pointer(uintptr_t value) {
  return reinterpret_cast<T>(value);  // NOLINT(performance-no-int-to-ptr): a wrong handle is what is tested
}

const Wrong kWrong[] = {
    {"type too large", "12 is not a data type",
     [](Buffers& b, ncclComm_t c) {
       return ncclAllReduce(b.in.data(), b.out.data(), 10, number<ncclDataType_t>(12), ncclSum, c, nullptr);
     }},
    {"type negative", "-1 is not a data type",
     [](Buffers& b, ncclComm_t c) { return ncclBroadcast(b.in.data(), b.out.data(), 10, number<ncclDataType_t>(-1), 0, c, nullptr); }},
    {"operator unknown", "99 is not a reduction operator",
     [](Buffers& b, ncclComm_t c) { return ncclAllReduce(b.in.data(), b.out.data(), 10, ncclFloat, number<ncclRedOp_t>(99), c, nullptr); }},
    {"operator negative", "-3 is not a reduction operator",
     [](Buffers& b, ncclComm_t c) {
       return ncclReduceScatter(b.in.data(), b.out.data(), 10, ncclFloat, number<ncclRedOp_t>(-3), c, nullptr);
     }},
    {"root too large", "root 2 is not a rank",
     [](Buffers& b, ncclComm_t c) { return ncclBroadcast(b.in.data(), b.out.data(), 10, ncclFloat, 2, c, nullptr); }},
    {"root negative", "root -1 is not a rank",
     [](Buffers& b, ncclComm_t c) { return ncclReduce(b.in.data(), b.out.data(), 10, ncclFloat, ncclSum, -1, c, nullptr); }},
    {"peer too large", "peer 7 is not a rank",
     [](Buffers& b, ncclComm_t c) { return ncclSend(b.in.data(), 10, ncclFloat, 7, c, nullptr); }},
    {"peer negative", "peer -2 is not a rank",
     [](Buffers& b, ncclComm_t c) { return ncclRecv(b.out.data(), 10, ncclFloat, -2, c, nullptr); }},
    {"send buffer NULL", "the send buffer is NULL",
     [](Buffers& b, ncclComm_t c) { return ncclAllReduce(nullptr, b.out.data(), 10, ncclFloat, ncclSum, c, nullptr); }},
    {"receive buffer NULL", "the receive buffer is NULL",
     [](Buffers& b, ncclComm_t c) { return ncclAllGather(b.in.data(), nullptr, 10, ncclFloat, c, nullptr); }},
    {"sent NULL", "the send buffer is NULL", [](Buffers&, ncclComm_t c) { return ncclSend(nullptr, 10, ncclFloat, 1, c, nullptr); }},
    {"received NULL", "the receive buffer is NULL", [](Buffers&, ncclComm_t c) { return ncclRecv(nullptr, 10, ncclFloat, 1, c, nullptr); }},
    {"Bcast NULL", "buffer is NULL", [](Buffers&, ncclComm_t c) { return ncclBcast(nullptr, 10, ncclFloat, 0, c, nullptr); }},
    {"count overflows", "more bytes than any memory has",
     [](Buffers& b, ncclComm_t c) { return ncclAllReduce(b.in.data(), b.out.data(), SIZE_MAX, ncclFloat, ncclSum, c, nullptr); }},
    {"count overflows by ranks", "more bytes than any memory has",
     [](Buffers& b, ncclComm_t c) { return ncclAllGather(b.in.data(), b.out.data(), SIZE_MAX / 8 + 1, ncclFloat, c, nullptr); }},
    {"count wraps to nothing", "more bytes than any memory has",
     [](Buffers& b, ncclComm_t c) { return ncclSend(b.in.data(), size_t{1} << 62, ncclFloat, 1, c, nullptr); }},
    {"no room for a profile", "the pointer to the size is NULL",
     [](Buffers&, ncclComm_t c) { return isthmusCommProfile(c, nullptr, nullptr); }},
    {"no room for a plan", "the pointer to the size is NULL", [](Buffers&, ncclComm_t c) { return isthmusCommPlan(c, nullptr, nullptr); }},
    {"unaligned", "is not aligned",
     [](Buffers& b, ncclComm_t c) {
       return ncclAllReduce(reinterpret_cast<char*>(b.in.data()) + 1, b.out.data(), 10, ncclFloat, ncclSum, c, nullptr);
     }},
    {"overlap", "overlap",
     [](Buffers& b, ncclComm_t c) { return ncclAllReduce(b.in.data(), b.in.data() + 5, 10, ncclFloat, ncclSum, c, nullptr); }},
    {"all-to-all in place", "alltoall: send and receive buffer overlap; it has no in-place form",
     [](Buffers& b, ncclComm_t c) { return ncclAlltoAll(b.in.data(), b.in.data(), 10, ncclFloat, c, nullptr); }},
    {"all-to-all over itself", "it has no in-place form",
     [](Buffers& b, ncclComm_t c) { return ncclAlltoAll(b.in.data(), b.in.data() + 19, 10, ncclFloat, c, nullptr); }},
    {"all-to-all overflows by ranks", "more bytes than any memory has",
     [](Buffers& b, ncclComm_t c) { return ncclAlltoAll(b.in.data(), b.out.data(), SIZE_MAX / 8 + 1, ncclFloat, c, nullptr); }},
    {"foreign stream", "is not a stream",
     [](Buffers& b, ncclComm_t c) {
       return ncclAllReduce(b.in.data(), b.out.data(), 10, ncclFloat, ncclSum, c, pointer<cudaStream_t>(0xdeadbeef));
     }},
    {"destroyed stream", "is not a stream",
     [](Buffers& b, ncclComm_t c) {
       cudaStream_t stream = nullptr;
       isthmusStreamCreate(&stream);
       isthmusStreamDestroy(stream);
       return ncclAllReduce(b.in.data(), b.out.data(), 10, ncclFloat, ncclSum, c, stream);
     }},
    {"foreign stream synchronised", "is not a stream",
     [](Buffers&, ncclComm_t) { return isthmusStreamSynchronize(pointer<cudaStream_t>(0x1234)); }},
    {"communicator NULL", "the communicator is NULL",
     [](Buffers& b, ncclComm_t) { return ncclAllReduce(b.in.data(), b.out.data(), 10, ncclFloat, ncclSum, nullptr, nullptr); }},
    {"communicator made up", "is not a communicator",
     [](Buffers& b, ncclComm_t) {
       return ncclAllReduce(b.in.data(), b.out.data(), 10, ncclFloat, ncclSum, pointer<ncclComm_t>(0x5555), nullptr);
     }},
    {"communicator destroyed twice", "is not a communicator",
     [](Buffers&, ncclComm_t) {
       ncclComm_t alone = nullptr;
       ncclCommInitAll(&alone, 1, nullptr);
       ncclCommDestroy(alone);
       return ncclCommDestroy(alone);
     }},
    {"abort of nothing", "the communicator is NULL", [](Buffers&, ncclComm_t) { return ncclCommAbort(nullptr); }},
    {"count result NULL", "the result pointer is NULL", [](Buffers&, ncclComm_t c) { return ncclCommCount(c, nullptr); }},
    {"async result NULL", "the result pointer is NULL", [](Buffers&, ncclComm_t c) { return ncclCommGetAsyncError(c, nullptr); }},
    {"id result NULL", "the result pointer is NULL", [](Buffers&, ncclComm_t) { return ncclGetUniqueId(nullptr); }},
    {"version result NULL", "the result pointer is NULL", [](Buffers&, ncclComm_t) { return ncclGetVersion(nullptr); }},
    {"id without meaning", "ncclUniqueId",
     [](Buffers&, ncclComm_t) {
       ncclComm_t comm = nullptr;
       return ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0);
     }},
    {"rank outside", "rank 2 of 2",
     [](Buffers&, ncclComm_t) {
       ncclComm_t comm = nullptr;
       return ncclCommInitRank(&comm, 2, ncclUniqueId{}, 2);
     }},
    {"no ranks", "at least one",
     [](Buffers&, ncclComm_t) {
       ncclComm_t comm = nullptr;
       return ncclCommInitRank(&comm, 0, ncclUniqueId{}, 0);
     }},
    {"split color", "color -7",
     [](Buffers&, ncclComm_t c) {
       ncclComm_t part = nullptr;
       return ncclCommSplit(c, -7, 0, &part, nullptr);
     }},
    {"split result NULL", "the result pointer is NULL", [](Buffers&, ncclComm_t c) { return ncclCommSplit(c, 0, 0, nullptr, nullptr); }},
    {"config unset", "NCCL_CONFIG_INITIALIZER",
     [](Buffers&, ncclComm_t c) {
       ncclComm_t part = nullptr;
       ncclConfig_t config{};
       return ncclCommSplit(c, 0, 0, &part, &config);
     }},
    {"scalar NULL", "scalar is NULL",
     [](Buffers&, ncclComm_t c) {
       ncclRedOp_t op{};
       return ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarHostImmediate, c);
     }},
    {"operator of another type", "was made for",
     [](Buffers& b, ncclComm_t c) {
       double scale = 2;
       ncclRedOp_t op{};
       ncclRedOpCreatePreMulSum(&op, &scale, ncclDouble, ncclScalarHostImmediate, c);
       const ncclResult_t result = ncclAllReduce(b.in.data(), b.out.data(), 10, ncclFloat, op, c, nullptr);
       const std::string text = ncclGetLastError(nullptr);
       ncclRedOpDestroy(op, c);
       return text.find("was made for") == std::string::npos ? ncclInternalError : result;
     }},
    {"operator destroyed twice", "is not an operator",
     [](Buffers&, ncclComm_t c) { return ncclRedOpDestroy(number<ncclRedOp_t>(4711), c); }},
    {"memory not ours", "was not allocated here", [](Buffers& b, ncclComm_t) { return ncclMemFree(b.in.data()); }},
};

/// "" if the call is refused as it should be.
std::string complaint_about(const Wrong& wrong, ncclComm_t comm) {
  Buffers buffers;
  const ncclResult_t result = wrong.call(buffers, comm);
  const std::string text = ncclGetLastError(comm);
  if (result == ncclInvalidArgument && text.find(wrong.part) != std::string::npos) return "";
  return std::string(wrong.name) + ": " + std::to_string(result) + " \"" + text + "\", expected \"" + wrong.part + "\"; ";
}

TEST(Arguments, WrongOnesAreRefusedAndChangeNothing) {
  const auto endings = run_team({.ranks = 2, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
                                   std::string complaints;
                                   for (const Wrong& wrong : kWrong) {
                                     if (rank == 0) complaints += complaint_about(wrong, comm);
                                     if (!sum_is_right(rank, 2, comm, 1000, ending)) return;
                                   }
                                   if (!complaints.empty()) note(ending, ncclInternalError, complaints.c_str());
                                 }});
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclSuccess) << "rank " << ending.rank << ": " << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
  }
}

// A wrong call inside a group is refused on the spot; the group's other calls are carried out.
TEST(Arguments, WrongOnesInsideAGroupLeaveTheRestOfIt) {
  const auto endings = run_team({.ranks = 2, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
                                   std::vector<float> data(100, static_cast<float>(rank + 1));
                                   ncclGroupStart();
                                   const ncclResult_t refused =
                                       ncclAllReduce(data.data(), data.data(), 10, ncclFloat, ncclSum, comm, pointer<cudaStream_t>(0x77));
                                   ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, nullptr);
                                   note(ending, ncclGroupEnd());
                                   if (refused != ncclInvalidArgument || data.back() != 3)
                                     note(ending, ncclInternalError, "the group went wrong");
                                 }});
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

}  // namespace
}  // namespace isthmus::proc_test
