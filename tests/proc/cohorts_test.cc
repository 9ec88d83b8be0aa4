// SPDX-License-Identifier: Apache-2.0
// Cohorts over communicators with real processes, each of which stands for many clients: the same clusters everywhere, communicators of
// clusters, models mixed, group sums that refuse old epochs, errors that all processes get.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>

#include "isthmus.h"
#include "tests/proc/team.h"

namespace {

using isthmus::proc_test::Ending;
using isthmus::proc_test::note;
using isthmus::proc_test::run_team;
using isthmus::proc_test::Team;
using ::testing::HasSubstr;

constexpr int kClients = 20, kLabels = 6;  // of each process

isthmusCohortConfig_t config_of(int dim = kLabels) {
  isthmusCohortConfig_t config = ISTHMUS_COHORT_CONFIG_INITIALIZER;
  config.dim = dim;
  config.kFixed = 3;
  return config;
}

/// Shares of the labels of one of three groups: two labels each.
std::vector<float> shares_of(int group) {
  std::vector<float> shares(kLabels, 0.0F);
  shares[static_cast<size_t>(2 * group)] = shares[static_cast<size_t>(2 * group + 1)] = 0.5F;
  return shares;
}

/// What a step of a test must be; else the rank ends with its line.
#define MUST(condition)                                                                                                           \
  do {                                                                                                                            \
    if (!(condition)) return note(ending, ncclInternalError, (std::string(#condition ": ") + ncclGetLastError(nullptr)).c_str()); \
  } while (false)

void follow_drift(int32_t rank, ncclComm_t comm, Ending& ending) {
  const isthmusCohortConfig_t config = config_of();
  isthmusCohort_t cohort = nullptr;
  MUST(isthmusCohortInit(&cohort, comm, &config) == ncclSuccess);
  const auto group_of = [](int client) { return client % 3; };
  for (int client = rank * kClients; client < (rank + 1) * kClients; ++client) {
    const auto shares = shares_of(group_of(client));
    MUST(isthmusCohortReport(cohort, static_cast<unsigned long long>(client), shares.data(), kLabels, 40) == ncclSuccess);
  }
  isthmusDriftReport_t report = ISTHMUS_DRIFT_REPORT_INITIALIZER;
  MUST(isthmusCohortUpdate(cohort, &report) == ncclSuccess);
  MUST(report.k == 3 && report.clients == 60 && report.joined == 60 && report.epoch > 0);
  std::set<std::pair<int, int>> pairs;
  int cluster = -1;
  for (int client = 0; client < 60; ++client) {
    MUST(isthmusCohortClusterOf(cohort, static_cast<unsigned long long>(client), &cluster) == ncclSuccess);
    pairs.insert({group_of(client), cluster});
  }
  MUST(pairs.size() == 3);

  // Everybody has clients in every cluster: three communicators, three sums, each process with the weight of its clients.
  isthmusGroupConfig_t group = ISTHMUS_GROUP_CONFIG_INITIALIZER;
  group.epoch = report.epoch;
  group.deadlineMs = 20000;
  group.largestWeight = 40 * kClients;
  group.codec = "thc:b=8";
  std::vector<ncclComm_t> comms(3, nullptr);
  for (int k = 0; k < 3; ++k) {
    MUST(isthmusCohortComm(cohort, k, &comms[static_cast<size_t>(k)]) == ncclSuccess);
    MUST(comms[static_cast<size_t>(k)] != nullptr);
    std::vector<float> x(1000, static_cast<float>(k + 1));
    isthmusGroupInfo_t info = ISTHMUS_GROUP_INFO_INITIALIZER;
    MUST(isthmusGroupAllReduce(x.data(), x.data(), x.size(), ncclFloat32, 40 * 6, comms[static_cast<size_t>(k)], &group, &info, nullptr) ==
         ncclSuccess);
    MUST(info.survivors == 3 && info.weightSum == 720 && std::abs(x[5] - static_cast<float>(k + 1)) < 0.5F);
  }

  // One client of rank 0 moves; all others say what they said, but for two samples of forty: no news.
  for (int client = rank * kClients; client < (rank + 1) * kClients; ++client) {
    auto shares = shares_of(client == 0 ? 1 : group_of(client));
    *std::find(shares.begin(), shares.end(), 0.5F) -= 0.05F;
    *std::find(shares.begin(), shares.end(), 0.5F) += 0.05F;
    MUST(isthmusCohortReport(cohort, static_cast<unsigned long long>(client), shares.data(), kLabels, 40) == ncclSuccess);
  }
  const unsigned long long before = report.epoch;
  MUST(isthmusCohortUpdate(cohort, &report) == ncclSuccess);
  MUST(report.reported == 1 && report.unchanged == 59 && report.migrated == 1 && report.reclustered == 0 && report.epoch == before + 1);
  const double* mix = nullptr;
  int k_old = -1, k_new = -1;
  MUST(isthmusCohortMix(cohort, &mix, &k_old, &k_new) == ncclSuccess && k_old == 0 && k_new == 3);

  // Rank 2 has not noticed that the epoch is another.
  group.epoch = rank == 2 ? before : report.epoch;
  group.quorum = 2;
  group.deadlineMs = 4000;
  std::vector<float> x(1000, 1.0F);
  if (rank == 2) usleep(500000);
  isthmusGroupInfo_t info = ISTHMUS_GROUP_INFO_INITIALIZER;
  const ncclResult_t result = isthmusGroupAllReduce(x.data(), x.data(), x.size(), ncclFloat32, 40, comms[0], &group, &info, nullptr);
  for (ncclComm_t each : comms) MUST(ncclCommDestroy(each) == ncclSuccess);
  MUST(isthmusCohortDestroy(cohort) == ncclSuccess);
  note(ending, result);
}

TEST(Cohorts, FollowDriftTheSameInAllProcesses) {
  Team team{.ranks = 3, .body = follow_drift};
  team.limit_ms = 60000;
  const std::vector<Ending> endings = run_team(team);
  EXPECT_EQ(endings[0].result, ncclSuccess) << endings[0].words();
  EXPECT_EQ(endings[1].result, ncclSuccess) << endings[1].words();
  EXPECT_THAT(endings[2].words(), HasSubstr("epoch"));
  EXPECT_EQ(endings[2].result, ncclInvalidUsage) << endings[2].words();
}

TEST(Cohorts, SplitIntoCommunicatorsOfOneClientEach) {
  Team team{
      .ranks = 4, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
        isthmusCohortConfig_t config = config_of();
        config.kFixed = 2;
        config.minCohort = 1;
        isthmusCohort_t cohort = nullptr;
        MUST(isthmusCohortInit(&cohort, comm, &config) == ncclSuccess);
        MUST(isthmusCohortReport(cohort, static_cast<unsigned long long>(rank), shares_of(rank % 2).data(), kLabels, 40) == ncclSuccess);
        MUST(isthmusCohortUpdate(cohort, nullptr) == ncclSuccess);
        int mine = -1, ranks = 0;
        MUST(isthmusCohortClusterOf(cohort, static_cast<unsigned long long>(rank), &mine) == ncclSuccess);
        ncclComm_t cluster = nullptr;
        MUST(isthmusCohortComm(cohort, mine, &cluster) == ncclSuccess);
        MUST(cluster != nullptr && ncclCommCount(cluster, &ranks) == ncclSuccess && ranks == 2);
        int sum = 1;  // after it the others are there, too
        MUST(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, cluster, nullptr) == ncclSuccess && sum == 2);
        MUST(isthmusCohortDestroy(cohort) == ncclSuccess);
        note(ending, ncclCommDestroy(cluster));
      }};
  for (const Ending& ending : run_team(team)) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

TEST(Cohorts, LetClientsComeToAnotherProcess) {
  Team team{.ranks = 2, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
              isthmusCohortConfig_t config = config_of();
              config.kFixed = 2;
              config.minCohort = 1;
              isthmusCohort_t cohort = nullptr;
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclSuccess);
              const auto say = [&](unsigned long long client, int group) {
                return isthmusCohortReport(cohort, client, shares_of(group).data(), kLabels, 40) == ncclSuccess;
              };
              isthmusDriftReport_t report = ISTHMUS_DRIFT_REPORT_INITIALIZER;
              for (int round = 0; round < 3; ++round) {  // client 0 changes each time
                MUST(rank == 1 ? say(1, 1) && say(2, 0) : say(0, round % 2));
                MUST(isthmusCohortUpdate(cohort, &report) == ncclSuccess && report.reported == (round == 0 ? 3U : 1U));
              }
              // Its first report by rank 1 is the fourth of all; then both report it, and the lower rank's counts.
              if (rank == 1) MUST(say(0, 1));
              MUST(isthmusCohortUpdate(cohort, &report) == ncclSuccess && report.reported == 1 && report.repeated == 0);
              int of_0 = -1, of_1 = -2;
              MUST(isthmusCohortClusterOf(cohort, 0, &of_0) == ncclSuccess && isthmusCohortClusterOf(cohort, 1, &of_1) == ncclSuccess);
              MUST(of_0 == of_1);
              MUST(say(0, rank == 0 ? 0 : 2));
              MUST(isthmusCohortUpdate(cohort, &report) == ncclSuccess && report.reported == 1 && report.repeated == 1);
              MUST(isthmusCohortClusterOf(cohort, 0, &of_0) == ncclSuccess && isthmusCohortClusterOf(cohort, 2, &of_1) == ncclSuccess);
              MUST(of_0 == of_1);
              note(ending, isthmusCohortDestroy(cohort));
            }};
  for (const Ending& ending : run_team(team)) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

/// Three processes, whose configurations `adjust` makes differ, all get the error that holds `text`.
void expect_all_told(const std::function<void(int32_t rank, isthmusCohortConfig_t&)>& adjust, const std::string& text) {
  Team team{.ranks = 3, .body = [&](int32_t rank, ncclComm_t comm, Ending& ending) {
              isthmusCohortConfig_t config = config_of();
              adjust(rank, config);
              isthmusCohort_t cohort = nullptr;
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclSuccess);
              const ncclResult_t result = isthmusCohortUpdate(cohort, nullptr);
              note(ending, result == ncclInvalidArgument ? ncclSuccess : result, ncclGetLastError(nullptr));  // an abort would overtake it
              if (isthmusCohortDestroy(cohort) != ncclSuccess) note(ending, ncclInternalError, "destroy");
            }};
  for (const Ending& ending : run_team(team)) {
    EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
    EXPECT_THAT(ending.words(), HasSubstr(text));
  }
}

TEST(Cohorts, TellAllProcessesThatTheirRepresentationsDiffer) {
  const auto other_probe = [](int32_t rank, isthmusCohortConfig_t& config) {
    config.repKind = ISTHMUS_REP_EMBEDDING;
    config.probeHash = rank == 1 ? 77 : 78;
  };
  expect_all_told(other_probe, "rank 1");
}

TEST(Cohorts, TellAllProcessesThatTheirRulesDiffer) {
  const auto other_trigger = [](int32_t rank, isthmusCohortConfig_t& config) {
    if (rank == 2) config.tau = 0.5;
  };
  expect_all_told(other_trigger, "rank 2's cohort has another configuration");
}

TEST(Cohorts, RefuseWhatMakesNoSense) {
  Team team{.ranks = 1, .body = [](int32_t, ncclComm_t comm, Ending& ending) {
              isthmusCohort_t cohort = nullptr;
              isthmusCohortConfig_t config = config_of(0);
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclInvalidArgument);
              config = config_of();
              config.repKind = 9;
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclInvalidArgument);
              config = config_of();
              config.kMin = 6, config.kMax = 5;
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclInvalidArgument);
              config = config_of();
              config.kRule = 2;
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclInvalidArgument);
              config = config_of();
              MUST(isthmusCohortInit(&cohort, nullptr, &config) == ncclInvalidArgument);
              MUST(isthmusCohortInit(&cohort, comm, &config) == ncclSuccess);
              MUST(isthmusCohortReport(cohort, 1, shares_of(0).data(), kLabels - 1, 40) == ncclInvalidArgument);
              MUST(isthmusCohortReport(cohort, 1, nullptr, kLabels, 40) == ncclInvalidArgument);
              const std::vector<float> wrong(kLabels, 0.5F);
              MUST(isthmusCohortReport(cohort, 1, wrong.data(), kLabels, 40) == ncclInvalidArgument);
              MUST(isthmusCohortReport(cohort, 1, shares_of(0).data(), kLabels, 0) == ncclInvalidArgument);
              MUST(isthmusCohortUpdate(cohort, nullptr) == ncclInvalidArgument);
              ncclComm_t none = nullptr;
              MUST(ncclGroupStart() == ncclSuccess);
              MUST(isthmusCohortUpdate(cohort, nullptr) == ncclInvalidUsage);
              MUST(isthmusCohortComm(cohort, 0, &none) == ncclInvalidUsage);
              MUST(ncclGroupEnd() == ncclSuccess);
              MUST(isthmusCohortComm(cohort, 5, &none) == ncclInvalidArgument);
              MUST(isthmusCohortDestroy(cohort) == ncclSuccess);
              MUST(isthmusCohortDestroy(cohort) == ncclInvalidArgument);
              note(ending, ncclSuccess, "");
            }};
  for (const Ending& ending : run_team(team)) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

}  // namespace
