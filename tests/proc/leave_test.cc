// SPDX-License-Identifier: Apache-2.0
// Processes that go without a word. fork(): the child is refused with a clear text, and neither its life nor its end touches the parent.
// exit() without ncclCommDestroy, from any state: no crash, no hang, the others are told at once, nothing stays behind.
// ncclCommDestroy right after a call, while other ranks of the same process are still in it, or not even there: nothing of it is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "isthmus.h"
#include "proc/team.h"

static bool has_lost_threads = false;

/// LeakSanitizer's question. It does not look at the stacks of threads that a fork()ed child has lost, so that all that only they knew
/// would seem to have leaked.
extern "C" int __lsan_is_turned_off();
int __lsan_is_turned_off() { return has_lost_threads ? 1 : 0; }

namespace isthmus::proc_test {
namespace {

constexpr int64_t kSoonUs = 1'000'000 * kPatience;

ncclResult_t allreduce(std::vector<float>& data, ncclComm_t comm, cudaStream_t stream = nullptr) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, stream);
}

/// Calls until one fails; that failure is the ending.
void call_until_failure(ncclComm_t comm, size_t count, Ending& ending) {
  std::vector<float> data(count, 0);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    ending.before_us = moment_us();
    result = allreduce(data, comm);
  }
  note(ending, result);
}

void expect_told(const Ending& ending, int32_t gone) {
  EXPECT_EQ(ending.result, ncclRemoteError) << "rank " << ending.rank << ": " << ending.words();
  EXPECT_TRUE(ending.says("rank " + std::to_string(gone))) << ending.words();
  EXPECT_LT(ending.moment_us - ending.before_us, kSoonUs) << "rank " << ending.rank << " after rank " << gone << ": " << ending.words();
}

// --- fork ------------------------------------------------------------------------------------------------------------------------

bool is_refused(ncclResult_t result) {
  return result == ncclInvalidUsage && std::string(ncclGetLastError(nullptr)).find("fork()") != std::string::npos;
}

/// 0: every call was refused as it should be.
int try_everything(ncclComm_t comm) {
  std::vector<float> data(10, 1);
  ncclUniqueId id{};
  ncclComm_t other = nullptr;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  if (!is_refused(allreduce(data, comm))) return 1;
  if (!is_refused(ncclGetUniqueId(&id))) return 2;
  if (!is_refused(ncclCommInitRank(&other, 1, id, 0))) return 3;
  if (!is_refused(ncclCommSplit(comm, 0, 0, &other, nullptr))) return 4;
  if (!is_refused(ncclMemAlloc(&memory, 100))) return 5;
  if (!is_refused(isthmusStreamCreate(&stream))) return 6;
  if (!is_refused(ncclCommDestroy(comm))) return 7;
  if (!is_refused(ncclCommAbort(comm))) return 8;
  return 0;
}

/// While another thread makes calls. Children end in turn by exit, which runs what programs registered, and by _exit.
std::string fork_often(ncclComm_t comm, int times) {
  for (int i = 0; i < times; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      has_lost_threads = true;
      close(report_fd);
      alarm(20 * kPatience);
      const int code = try_everything(comm);
      if (i % 2 == 0) _exit(code);
      exit(code);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) return "child " + std::to_string(i) + " ended with status " + std::to_string(status);
  }
  return "";
}

TEST(Fork, ChildrenAreRefusedAndTheParentGoesOn) {
  const auto endings = run_team({.ranks = 2,
                                 .body =
                                     [](int32_t rank, ncclComm_t comm, Ending& ending) {
                                       std::string complaint;
                                       std::thread forks([&] { complaint = fork_often(comm, 20); });
                                       bool right = true;
                                       for (int i = 0; right && i < 2000; ++i)
                                         right = sum_is_right(rank, 2, comm, i % 100 == 0 ? 100'000 : 100, ending);
                                       forks.join();
                                       right = right && sum_is_right(rank, 2, comm, 1000, ending);
                                       if (right && !complaint.empty()) note(ending, ncclInternalError, complaint.c_str());
                                     },
                                 .limit_ms = 40'000});
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclSuccess) << "rank " << ending.rank << ": " << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
  }
}

// A worker process that outlives its parent must not keep the parent's connections alive: the others would wait for the peer limit.
void death_with_living_child(bool hosts, int32_t victim) {
  const auto endings = run_team({.ranks = 3,
                                 .body =
                                     [=](int32_t rank, ncclComm_t comm, Ending& ending) {
                                       if (!sum_is_right(rank, 3, comm, 100'000, ending)) return;  // everything is connected
                                       if (rank == victim && fork() == 0) {
                                         close(report_fd);
                                         sleep(4);
                                         _exit(0);
                                       }
                                       if (rank == victim) {
                                         std::thread([] {
                                           usleep(50'000);
                                           raise(SIGKILL);
                                         }).detach();
                                       }
                                       call_until_failure(comm, 1000, ending);
                                     },
                                 .prepare =
                                     [=](int32_t rank) {
                                       setenv("NCCL_SOCKET_IFNAME", "lo", 1);
                                       if (hosts) setenv("ISTHMUS_HOSTID", std::to_string(rank).c_str(), 1);
                                     }});
  for (int32_t rank = 0; rank < 3; ++rank) {
    if (rank != victim) expect_told(endings[static_cast<size_t>(rank)], victim);
  }
  EXPECT_EQ(endings[static_cast<size_t>(victim)].result, -1);
}

TEST(Fork, AChildThatLivesOnDoesNotHideItsParentsDeath) {
  for (const bool hosts : {false, true}) {
    for (const int32_t victim : {0, 1}) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, std::string(hosts ? "hosts" : "one host") + ", rank " + std::to_string(victim));
      death_with_living_child(hosts, victim);
    }
  }
}

// --- exit ------------------------------------------------------------------------------------------------------------------------

/// What the process is in the middle of when one of its threads calls exit().
enum class Amid : uint32_t { nothing, blocked_call, calls, stream, set_up };
const char* const kAmidNames[] = {"nothing", "a blocked call", "calls", "a stream", "a set-up"};

void leave(Amid amid, ncclComm_t comm, useconds_t delay_us) {
  static auto& kept = *new std::vector<float>(200'000, 1);  // outlives the exit, as a program's globals may not
  if (amid == Amid::blocked_call) std::thread([&, comm] { allreduce(kept, comm); }).detach();
  if (amid == Amid::calls) {
    std::thread([&, comm] {
      while (allreduce(kept, comm) == ncclSuccess) {
      }
    }).detach();
  }
  if (amid == Amid::stream) {
    cudaStream_t stream = nullptr;
    isthmusStreamCreate(&stream);
    for (int i = 0; i < 10; ++i) allreduce(kept, comm, stream);
  }
  if (amid == Amid::set_up) {
    std::thread([] {
      ncclUniqueId id{};
      ncclComm_t never = nullptr;
      ncclGetUniqueId(&id);
      ncclCommInitRank(&never, 2, id, 0);
    }).detach();
  }
  usleep(delay_us);
  exit(0);
}

void exit_amid(Amid amid, int32_t leaver, useconds_t delay_us) {
  const auto endings = run_team({.ranks = 3, .body = [=](int32_t rank, ncclComm_t comm, Ending& ending) {
                                   if (!sum_is_right(rank, 3, comm, 100, ending)) return;
                                   if (rank == leaver) leave(amid, comm, delay_us);
                                   if (amid == Amid::blocked_call && rank == (leaver + 1) % 3) {  // does not call, so that the others wait
                                     ncclResult_t told = ncclSuccess;
                                     while (told == ncclSuccess) {
                                       ending.before_us = moment_us();
                                       ncclCommGetAsyncError(comm, &told);
                                       usleep(500);
                                     }
                                     return note(ending, told);
                                   }
                                   call_until_failure(comm, 200'000, ending);
                                 }});
  for (int32_t rank = 0; rank < 3; ++rank) {
    const Ending& ending = endings[static_cast<size_t>(rank)];
    EXPECT_TRUE(ending.exited(0)) << "rank " << rank << ", wait status " << ending.wait_status;
    if (rank != leaver) expect_told(ending, leaver);
  }
  EXPECT_EQ(endings[static_cast<size_t>(leaver)].rank, -1);
}

// --- ncclCommDestroy -------------------------------------------------------------------------------------------------------------

/// Comes, makes one call, and goes, again and again; `comm` stays.
ncclResult_t come_and_go(ncclComm_t comm, int32_t rank, int times) {
  std::vector<float> data(100'000);
  ncclResult_t result = ncclSuccess;
  for (int i = 0; result == ncclSuccess && i < times; ++i) {
    ncclComm_t brief = nullptr;
    result = ncclCommSplit(comm, 0, rank, &brief, nullptr);
    const size_t count = i % 2 == 0 ? data.size() : 100;
    if (result == ncclSuccess) result = ncclBroadcast(data.data(), data.data(), count, ncclFloat, i % 3, brief, nullptr);
    if (result == ncclSuccess) result = ncclCommDestroy(brief);
  }
  return result;
}

TEST(Destroy, RightAfterACallTakesNothingFromRanksOfTheSameProcess) {
  constexpr int32_t kThreads = 3;
  const auto endings = run_team({.ranks = 1, .body = [](int32_t, ncclComm_t, Ending& ending) {
                                   std::array<ncclComm_t, kThreads> comms{};
                                   note(ending, ncclCommInitAll(comms.data(), kThreads, nullptr));
                                   std::array<ncclResult_t, kThreads> results{};
                                   std::vector<std::thread> threads;
                                   for (int32_t rank = 0; rank < kThreads; ++rank) {
                                     const auto at = static_cast<size_t>(rank);
                                     threads.emplace_back([&, at, rank] { results[at] = come_and_go(comms[at], rank, 1500); });
                                   }
                                   for (std::thread& thread : threads) thread.join();
                                   for (const ncclResult_t result : results) {
                                     if (result != ncclSuccess) note(ending, result);
                                   }
                                   for (ncclComm_t comm : comms) ncclCommDestroy(comm);
                                 }});
  EXPECT_EQ(endings[0].result, ncclSuccess) << endings[0].words();
  EXPECT_TRUE(endings[0].exited(0)) << "wait status " << endings[0].wait_status << " (-1: it hung)";
}

TEST(Exit, WithoutDestroyIsHarmlessAndTold) {
  const auto before = names_in("/dev/shm");
  std::mt19937_64 dice(3);
  for (uint32_t trial = 0; trial < 30; ++trial) {
    const auto amid = static_cast<Amid>(trial % 5);
    const auto leaver = static_cast<int32_t>(dice() % 3);
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     std::string("amid ") + kAmidNames[trial % 5] + ", rank " + std::to_string(leaver) + " leaves");
    exit_amid(amid, leaver, static_cast<useconds_t>(dice() % 10'000));
  }
  for (const std::string& name : names_in("/dev/shm")) {
    const bool is_new = std::find(before.begin(), before.end(), name) == before.end();
    EXPECT_FALSE(is_new && name.find("isthmus") != std::string::npos) << "left behind: /dev/shm/" << name;
  }
}

}  // namespace
}  // namespace isthmus::proc_test
