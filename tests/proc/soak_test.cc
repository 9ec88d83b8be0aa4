// SPDX-License-Identifier: Apache-2.0
// Many calls add nothing: mixed collectives and sizes on two communicators, with others made and destroyed now and then, between two ranks
// in one process and between two processes. A program of its own: soak_test [--calls N]. Prints memory and descriptors after warming up
// and at the end; fails if they grow.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "base/sanitizers.h"
#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

constexpr int64_t kLeastWarmCalls = 4000;
int64_t warm_calls(int64_t calls) { return std::max(kLeastWarmCalls, calls / 4); }  // rare sizes have plans of their own
constexpr int64_t kCallsPerCommunicator = 1000;                                     // then one is made, used and destroyed
constexpr size_t kMostElements = 40'000;
// Messages that wait for their call are kept in pooled blocks, for each size as many as ever waited at once: that rises by small steps
// towards a bound. A leak of one byte a call is seen from half a million calls on.
constexpr int64_t kSlackAllocatedBytes = 512 << 10;
constexpr int64_t kSlackResidentBytes = 2 << 20;

struct Usage {
  int64_t resident_bytes = 0, allocated_bytes = 0, descriptors = 0;
};

Usage usage() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  const auto facts = mallinfo2();
  return {.resident_bytes = resident * sysconf(_SC_PAGESIZE),
          .allocated_bytes = static_cast<int64_t>(facts.uordblks + facts.hblkhd),
          .descriptors = count_descriptors()};
}

/// One rank's buffers and the dice that all ranks throw alike.
struct Rank {
  int32_t rank = 0;
  ncclComm_t comm = nullptr, other = nullptr;
  std::mt19937_64 dice{11};
  std::vector<float> in = std::vector<float>(2 * kMostElements, 1), out = std::vector<float>(2 * kMostElements);
};

ncclResult_t exchange(Rank& me, ncclComm_t comm, size_t count) {
  ncclGroupStart();
  ncclSend(me.in.data(), count, ncclFloat, 1 - me.rank, comm, nullptr);
  ncclRecv(me.out.data(), count, ncclFloat, 1 - me.rank, comm, nullptr);
  return ncclGroupEnd();
}

ncclResult_t one_call(Rank& me) {
  ncclComm_t comm = me.dice() % 4 == 0 ? me.other : me.comm;
  const size_t count = me.dice() % 50 == 0 ? me.dice() % kMostElements : me.dice() % 300;
  const int root = static_cast<int>(me.dice() % 2);
  float* in = me.in.data();
  float* out = me.out.data();
  switch (me.dice() % 8) {
    case 0:
      return ncclAllReduce(in, out, count, ncclFloat, ncclMax, comm, nullptr);
    case 1:
      return ncclReduceScatter(in, out, count, ncclFloat, ncclSum, comm, nullptr);
    case 2:
      return ncclAllGather(in, out, count, ncclFloat, comm, nullptr);
    case 3:
      return ncclBroadcast(in, out, count, ncclFloat, root, comm, nullptr);
    case 4:
      return ncclReduce(in, out, count, ncclFloat, ncclSum, root, comm, nullptr);
    case 5:
      return exchange(me, comm, count);
    case 6:
      return ncclAlltoAll(in, out, count, ncclFloat, comm, nullptr);
    default:
      return ncclAllReduce(in, in, count, ncclFloat, ncclAvg, comm, nullptr);
  }
}

ncclResult_t one_communicator(Rank& me) {
  ncclComm_t part = nullptr;
  ncclResult_t result = ncclCommSplit(me.comm, 0, me.rank, &part, nullptr);
  if (result == ncclSuccess) result = ncclAllReduce(me.in.data(), me.out.data(), 100, ncclFloat, ncclSum, part, nullptr);
  if (result == ncclSuccess) result = ncclCommDestroy(part);
  return result;
}

ncclResult_t run_calls(Rank& me, int64_t calls) {
  ncclResult_t result = ncclSuccess;
  for (int64_t i = 0; i < calls && result == ncclSuccess; ++i) {
    // Now and then all wait for each other: how far one may run ahead of the other is a question of credit, not of leaks.
    result = i % 8 == 7 ? ncclAllReduce(me.in.data(), me.out.data(), 1, ncclFloat, ncclSum, me.comm, nullptr) : one_call(me);
    if (result == ncclSuccess && i % kCallsPerCommunicator == kCallsPerCommunicator - 1) result = one_communicator(me);
  }
  return result;
}

/// Lets messages of every size wait for a receiver that is late: the blocks for them are kept, and whether the warm-up happens to need as
/// many as the calls after it is a question of who runs when.
ncclResult_t stock_up(Rank& me) {
  ncclResult_t result = ncclSuccess;
  for (const size_t count : {size_t{10}, size_t{30}, size_t{60}, size_t{120}, size_t{290}, size_t{2000}, size_t{15'000}, kMostElements}) {
    for (ncclComm_t comm : {me.comm, me.other}) {
      for (const int root : {0, 1}) {
        if (me.rank != root) std::this_thread::sleep_for(std::chrono::milliseconds(3));
        for (int i = 0; i < 8 && result == ncclSuccess; ++i) {
          result = ncclBroadcast(me.in.data(), me.out.data(), count, ncclFloat, root, comm, nullptr);
        }
      }
    }
  }
  return result;
}

/// "" or what grew; prints both states.
std::string growth(const char* name, const Usage& warm, const Usage& end) {
  std::printf("%s: resident %+lld KiB (%lld), allocated %+lld bytes (%lld), descriptors %+lld (%lld)\n", name,
              static_cast<long long>((end.resident_bytes - warm.resident_bytes) / 1024), static_cast<long long>(end.resident_bytes / 1024),
              static_cast<long long>(end.allocated_bytes - warm.allocated_bytes), static_cast<long long>(end.allocated_bytes),
              static_cast<long long>(end.descriptors - warm.descriptors), static_cast<long long>(end.descriptors));
  std::fflush(stdout);
  if constexpr (!kSanitized) {  // a sanitizer's bookkeeping grows by itself, and mallinfo does not know its allocator
    if (end.resident_bytes - warm.resident_bytes > kSlackResidentBytes) return "resident memory has grown";
    if (end.allocated_bytes - warm.allocated_bytes > kSlackAllocatedBytes) return "allocated memory has grown";
  }
  return end.descriptors > warm.descriptors ? "descriptors have become more" : "";
}

/// Both ranks warm up, are measured at one moment, go on, and are measured again. `meet` waits for all.
template <typename Meet>
ncclResult_t soak(Rank& me, int64_t calls, Usage& warm, Usage& end, Meet meet) {
  ncclResult_t result = ncclCommSplit(me.comm, 0, me.rank, &me.other, nullptr);
  if (result == ncclSuccess) result = stock_up(me);
  if (result == ncclSuccess) result = run_calls(me, warm_calls(calls));
  meet();
  if (me.rank == 0) warm = usage();
  meet();
  if (result == ncclSuccess) result = run_calls(me, calls);
  meet();
  if (me.rank == 0) end = usage();
  meet();
  return result;
}

void in_one_process(int64_t calls, Ending& ending) {
  std::array<ncclComm_t, 2> comms{};
  note(ending, ncclCommInitAll(comms.data(), 2, nullptr));
  if (ending.result != ncclSuccess) return;
  std::array<ncclResult_t, 2> results{};
  Usage warm, end;
  const auto body = [&](int32_t rank) {
    Rank me{.rank = rank, .comm = comms[static_cast<size_t>(rank)]};
    results[static_cast<size_t>(rank)] =
        soak(me, calls, warm, end, [&] { ncclAllReduce(me.in.data(), me.out.data(), 1, ncclFloat, ncclSum, me.comm, nullptr); });
  };
  std::thread second(body, 1);
  body(0);
  second.join();
  for (const ncclResult_t result : results) {
    if (result != ncclSuccess) return note(ending, result);
  }
  const std::string grew = growth("two ranks in one process", warm, end);
  if (!grew.empty()) note(ending, ncclInternalError, grew.c_str());
}

void in_two_processes(int32_t rank, ncclComm_t comm, int64_t calls, Ending& ending) {
  Rank me{.rank = rank, .comm = comm};
  Usage warm, end;
  note(ending, soak(me, calls, warm, end, [&] { ncclAllReduce(me.in.data(), me.out.data(), 1, ncclFloat, ncclSum, comm, nullptr); }));
  if (ending.result != ncclSuccess || rank != 0) return;
  const std::string grew = growth("two processes", warm, end);
  if (!grew.empty()) note(ending, ncclInternalError, grew.c_str());
}

int run(int64_t calls) {
  const int limit_ms = static_cast<int>(std::min<int64_t>(60'000 + calls, INT32_MAX));
  std::printf("%lld calls after %lld to warm up\n", static_cast<long long>(calls), static_cast<long long>(warm_calls(calls)));
  std::fflush(stdout);
  auto endings = run_team(
      1, [=](int32_t, ncclComm_t, Ending& ending) { in_one_process(calls, ending); }, limit_ms);
  const auto more = run_team(
      2, [=](int32_t rank, ncclComm_t comm, Ending& ending) { in_two_processes(rank, comm, calls, ending); }, limit_ms);
  endings.insert(endings.end(), more.begin(), more.end());
  int failed = 0;
  for (const Ending& ending : endings) {
    if (ending.result == ncclSuccess && ending.exited(0)) continue;
    std::printf("rank %d: result %d, wait status %d: %s\n", ending.rank, ending.result, ending.wait_status, ending.text.data());
    failed = 1;
  }
  return failed;
}

}  // namespace
}  // namespace isthmus::proc_test

int main(int argc, char** argv) {
  int64_t calls = 20'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--calls") calls = std::atoll(argv[i + 1]);
  }
  return isthmus::proc_test::run(calls);
}
