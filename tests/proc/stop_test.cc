// SPDX-License-Identifier: Apache-2.0
// A rank is stopped (SIGSTOP) and goes on later. Half of ISTHMUS_PEER_TIMEOUT is survived with right results; twice as long is not: the
// others get ncclRemoteError that names it, and so does the rank itself once it goes on. On one host and over TCP, hub and other rank.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>

#include "proc/parallel.h"
#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

constexpr int32_t kRanks = 3;
constexpr useconds_t kPeerTimeoutUs = 2'000'000;

/// Between the test and its ranks.
struct Shared {
  std::atomic<int> running{0};    ///< ranks that have made a call
  std::atomic<bool> over{false};  ///< the rank goes on again
  std::atomic<int64_t> stopped_us{0};
};

struct Layout {
  bool hosts;  ///< each rank on a host of its own
  int32_t victim;
};

Shared* make_shared_page() {
  void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : new (page) Shared;
}

void prepare(const Layout& layout, int32_t rank) {
  setenv("ISTHMUS_PEER_TIMEOUT", "2s", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  if (layout.hosts) setenv("ISTHMUS_HOSTID", std::to_string(rank).c_str(), 1);
}

/// Calls until one fails, or all ranks know that the stop is over; sizes alternate between small and large.
void call_until_over(int32_t rank, ncclComm_t comm, Shared& shared, Ending& ending) {
  for (int calls = 0;; ++calls) {
    if (!sum_is_right(rank, kRanks, comm, calls % 2 == 0 ? 100 : 300'000, ending)) return;
    if (calls == 2) shared.running.fetch_add(1);
    float over = shared.over.load() ? 1 : 0;
    const ncclResult_t result = ncclAllReduce(&over, &over, 1, ncclFloat, ncclMax, comm, nullptr);
    if (result != ncclSuccess) return note(ending, result);
    if (over > 0) return;
    usleep(2000);
  }
}

std::vector<Ending> run_with_stop(const Layout& layout, useconds_t stopped_for_us, Shared& shared) {
  return run_team({.ranks = kRanks,
                   .body = [&](int32_t rank, ncclComm_t comm, Ending& ending) { call_until_over(rank, comm, shared, ending); },
                   .limit_ms = 25'000,
                   .prepare = [&](int32_t rank) { prepare(layout, rank); },
                   .meanwhile =
                       [&](const std::vector<pid_t>& pids) {
                         for (int i = 0; shared.running.load() < kRanks && i < 15'000; ++i) usleep(1000);
                         const pid_t pid = pids[static_cast<size_t>(layout.victim)];
                         shared.stopped_us = moment_us();
                         kill(pid, SIGSTOP);
                         usleep(stopped_for_us);
                         shared.over = true;
                         kill(pid, SIGCONT);
                       }});
}

void survives(const Layout& layout) {
  Shared* shared = make_shared_page();
  ASSERT_NE(shared, nullptr);
  for (const Ending& ending : run_with_stop(layout, kPeerTimeoutUs / 2, *shared)) {
    EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
  }
}

void is_named(const Layout& layout) {
  Shared* shared = make_shared_page();
  ASSERT_NE(shared, nullptr);
  for (const Ending& ending : run_with_stop(layout, 2 * kPeerTimeoutUs, *shared)) {
    EXPECT_EQ(ending.result, ncclRemoteError) << "rank " << ending.rank << ": " << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
    const int64_t after_us = ending.moment_us - shared->stopped_us.load();
    if (ending.rank == layout.victim) continue;  // it may name itself, or any that gave it up
    EXPECT_TRUE(ending.says("rank " + std::to_string(layout.victim))) << ending.words();
    EXPECT_LT(after_us, 2 * int64_t{kPeerTimeoutUs}) << "it was named only after it went on";
    std::printf("%s, rank %d stopped: rank %d named it after %.2f s\n", layout.hosts ? "hosts" : "one host", layout.victim, ending.rank,
                static_cast<double>(after_us) / 1e6);
  }
}

std::vector<Case> cases_of(void (*check)(const Layout&)) {
  std::vector<Case> cases;
  for (const bool hosts : {false, true}) {
    for (const int32_t victim : {0, 1}) {
      cases.push_back({.name = std::string(hosts ? "hosts" : "one host") + ", rank " + std::to_string(victim),
                       .run = [=] { check({.hosts = hosts, .victim = victim}); }});
    }
  }
  return cases;
}

TEST(Stop, ForHalfThePeerLimitIsSurvived) { run_in_parallel(cases_of(survives)); }

TEST(Stop, ForTwiceThePeerLimitIsNamed) { run_in_parallel(cases_of(is_named)); }

}  // namespace
}  // namespace isthmus::proc_test
