// SPDX-License-Identifier: Apache-2.0
// host_identity.h: what counts as one host, and the CPU limits.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <set>

#include "base/host_identity.h"

namespace isthmus {
namespace {

TEST(HostIdentity, EveryFactCounts) {
  const HostFacts facts = {.boot_id = "b", .ipc_namespace = 1, .pid_namespace = 2, .net_namespace = 3};
  std::set<uint64_t> ids = {host_id_of(facts)};
  EXPECT_EQ(host_id_of(HostFacts(facts)), *ids.begin());
  for (int change = 0; change < 4; ++change) {
    HostFacts other = facts;
    if (change == 0) other.boot_id.push_back('c');
    if (change == 1) other.ipc_namespace = 9;
    if (change == 2) other.pid_namespace = 9;
    if (change == 3) other.net_namespace = 9;
    EXPECT_TRUE(ids.insert(host_id_of(other)).second) << change;
  }
}

TEST(HostIdentity, SameForAllProcessesOfThisHost) {
  const HostIdentity mine = read_host_identity({});
  EXPECT_EQ(mine.warning, "");
  EXPECT_EQ(mine.pid, getpid());
  EXPECT_FALSE(mine.hostname.empty());
  EXPECT_FALSE(mine.cpu_set.empty());
  EXPECT_GE(mine.cpu_quota, 1u);
  const pid_t child = fork();
  if (child == 0) _exit(read_host_identity({}).host_id == mine.host_id ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HostIdentity, NamespacesMakeAnotherHost) {
  const uint64_t mine = read_host_identity({}).host_id;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWIPC) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWIPC) != 0) _exit(2);
    _exit(read_host_identity({}).host_id != mine ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "namespaces cannot be made here";
  EXPECT_EQ(status, 0);
}

TEST(HostIdentity, TheSettingWins) {
  Settings a, b;
  a.host_id = "rack1";
  b.host_id = "rack2";
  EXPECT_EQ(read_host_identity(a).host_id, read_host_identity(a).host_id);
  EXPECT_NE(read_host_identity(a).host_id, read_host_identity(b).host_id);
  EXPECT_NE(read_host_identity(a).host_id, read_host_identity({}).host_id);
}

TEST(HostIdentity, Affinity) {
  const pid_t child = fork();
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) _exit(2);
    const CpuSet set = read_host_identity({}).cpu_set;
    _exit(!set.empty() && std::popcount(set.back()) == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HostIdentity, Quotas) {
  EXPECT_EQ(cpus_of_quota("200000 100000"), 2u);
  EXPECT_EQ(cpus_of_quota("150000 100000"), 2u);
  EXPECT_EQ(cpus_of_quota("1000 100000"), 1u);
  EXPECT_EQ(cpus_of_quota("max 100000"), std::nullopt);
  EXPECT_EQ(cpus_of_quota(""), std::nullopt);
  EXPECT_EQ(cpus_of_quota("1 0"), std::nullopt);
}

TEST(HostIdentity, KnowsWhetherThereIsACpuForEveryRank) {
  constexpr unsigned kNoQuota = UINT32_MAX;
  const CpuSet all = {0b11}, first = {0b01}, second = {0b10}, far = {0, 1}, unknown = {};
  EXPECT_TRUE(enough_cpus(all, kNoQuota, std::vector{all, all})) << "nobody is bound";
  EXPECT_FALSE(enough_cpus(all, kNoQuota, std::vector{all, all, all}));
  EXPECT_TRUE(enough_cpus(first, kNoQuota, std::vector{first, second})) << "each has its own";
  EXPECT_FALSE(enough_cpus(first, kNoQuota, std::vector{first, first, second})) << "two share one";
  EXPECT_TRUE(enough_cpus(second, kNoQuota, std::vector{first, first, second})) << "but not this one";
  EXPECT_FALSE(enough_cpus(first, kNoQuota, std::vector{first, all, all}));
  EXPECT_FALSE(enough_cpus(first, kNoQuota, std::vector{first, all, second})) << "by way of a third";
  EXPECT_TRUE(enough_cpus(far, kNoQuota, std::vector{far, all, all, all}));
  EXPECT_FALSE(enough_cpus(first, kNoQuota, std::vector{first, unknown}));
  EXPECT_FALSE(enough_cpus(all, 1, std::vector{all, all})) << "a quota leaves one";
  EXPECT_FALSE(enough_cpus(first, 1, std::vector{first, second})) << "also to ranks that are bound";
  EXPECT_TRUE(enough_cpus(first, 2, std::vector{first, second}));
  EXPECT_TRUE(enough_cpus(all, 1, std::vector<CpuSet>{all}));
}

TEST(HostIdentity, FindsItsOwnCpus) {
  const HostIdentity host = read_host_identity(Settings{});
  EXPECT_GE(host.cpu_quota, 1u);
  ASSERT_FALSE(host.cpu_set.empty());
  EXPECT_NE(host.cpu_set.back(), 0u);
}

}  // namespace
}  // namespace isthmus
