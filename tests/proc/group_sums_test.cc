// SPDX-License-Identifier: Apache-2.0
// isthmusGroupAllReduce with real processes: everybody gets the same bytes; ranks that are killed or stopped do not hold the others beyond
// the deadline, nor do those of older epochs take part; what is wrong is said.
#include <gmock/gmock.h>

#include <cmath>

#include "base/hash.h"
#include "isthmus.h"
#include "tests/proc/team.h"

namespace {

using isthmus::kPatience;
using isthmus::proc_test::Ending;
using isthmus::proc_test::moment_us;
using isthmus::proc_test::note;
using isthmus::proc_test::run_team;
using isthmus::proc_test::Team;
using ::testing::HasSubstr;

constexpr size_t kCount = 100000;
constexpr int64_t kDeadlineMs = 1500;

isthmusGroupConfig_t config_of(bool masked, unsigned deadline_ms, unsigned quorum) {
  isthmusGroupConfig_t config = ISTHMUS_GROUP_CONFIG_INITIALIZER;
  config.deadlineMs = deadline_ms;
  config.quorum = quorum;
  config.largestWeight = 100;
  config.masked = masked ? 1 : 0;
  config.clip = 0.3F;  // weights are up to 0.4 of the largest
  return config;
}

std::vector<float> vector_of(int rank) {
  std::vector<float> x(kCount);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank));
  return x;
}

/// One sum; its ending's text is the survivors, the weights and a hash of the mean.
void sum_once(int rank, ncclComm_t comm, const isthmusGroupConfig_t& config, Ending& ending) {
  const std::vector<float> x = vector_of(rank);
  std::vector<float> mean(kCount);
  isthmusGroupInfo_t info = ISTHMUS_GROUP_INFO_INITIALIZER;
  const int64_t began = moment_us();
  const ncclResult_t result =
      isthmusGroupAllReduce(x.data(), mean.data(), kCount, ncclFloat32, 10.0 * (rank + 1), comm, &config, &info, nullptr);
  const std::string text = "survivors " + std::to_string(info.ranks[0]) + ", weights " + std::to_string(info.weightSum) + ", hash " +
                           std::to_string(isthmus::hash_bytes(std::as_bytes(std::span(mean))));
  note(ending, result, result == ncclSuccess ? text.c_str() : nullptr);
  ending.before_us = began;
}

void expect_same(const std::vector<Ending>& endings, const std::vector<size_t>& ranks, const std::string& part) {
  for (const size_t rank : ranks) {
    EXPECT_EQ(endings[rank].result, ncclSuccess) << rank << ": " << endings[rank].words();
    EXPECT_EQ(endings[rank].words(), endings[ranks.front()].words());
    EXPECT_THAT(endings[rank].words(), HasSubstr(part));
  }
}

TEST(GroupSums, AreTheSameOnAllRanksAndNearTheMean) {
  for (const bool masked : {false, true}) {
    Team team{.ranks = 4, .body = [masked](int32_t rank, ncclComm_t comm, Ending& ending) {
                const isthmusGroupConfig_t config = config_of(masked, 20000, 0);
                for (int round = 0; round < 3; ++round) sum_once(rank, comm, config, ending);
                std::vector<float> mean = vector_of(rank);
                isthmusGroupInfo_t info = ISTHMUS_GROUP_INFO_INITIALIZER;
                const ncclResult_t result =
                    isthmusGroupAllReduce(mean.data(), mean.data(), kCount, ncclFloat32, 10.0 * (rank + 1), comm, &config, &info, nullptr);
                if (result != ncclSuccess) return note(ending, result);
                double wrong = 0, all = 0;
                const std::vector<float> each[] = {vector_of(0), vector_of(1), vector_of(2), vector_of(3)};
                for (size_t i = 0; i < kCount; ++i) {
                  const double exact = (each[0][i] + 2 * each[1][i] + 3 * each[2][i] + 4 * each[3][i]) / 10;
                  wrong += std::pow(mean[i] - exact, 2);
                  all += exact * exact;
                }
                if (wrong > 0.2 * all || info.round != 4 || info.counted != 1) note(ending, ncclInternalError, "wrong mean");
                if (info.modulusBits != (masked ? 8U : 0U)) note(ending, ncclInternalError, "wrong width");
              }};
    expect_same(run_team(team), {0, 1, 2, 3}, "survivors 15, weights 100.0");
  }
}

/// Rank 3 dies or stops in its second sum, a while after it began.
void strike(bool masked, int signal, int after_us) {
  SCOPED_TRACE(::testing::Message() << "masked " << masked << ", signal " << signal << ", after " << after_us << " us");
  Team team{.ranks = 4, .body = [=](int32_t rank, ncclComm_t comm, Ending& ending) {
              const isthmusGroupConfig_t config = config_of(masked, static_cast<unsigned>(kDeadlineMs * kPatience), 3);
              sum_once(rank, comm, config, ending);
              if (rank == 3 && fork() == 0) {
                usleep(static_cast<useconds_t>(after_us));
                kill(getppid(), signal);
                _exit(0);
              }
              sum_once(rank, comm, config, ending);
              if (rank != 3) isthmus::proc_test::report(ending);
              _exit(0);  // without destroying the communicator, which needs everybody
            }};
  team.limit_ms = 8000;
  const std::vector<Ending> endings = run_team(team);
  const std::string words = endings[0].words();
  EXPECT_TRUE(words.find("survivors 7,") != std::string::npos || words.find("survivors 15,") != std::string::npos) << words;
  expect_same(endings, {0, 1, 2}, "survivors");
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_LE(endings[rank].moment_us - endings[rank].before_us, 1000 * (kDeadlineMs + 200) * kPatience);
  }
}

TEST(GroupSums, EndByTheDeadlineWithoutWhoDies) {
  for (const bool masked : {false, true})
    for (const int after_us : {0, 2000, 20000}) strike(masked, SIGKILL, after_us);
}

TEST(GroupSums, EndByTheDeadlineWithoutWhoStops) {
  for (const bool masked : {false, true})
    for (const int after_us : {0, 3000}) strike(masked, SIGSTOP, after_us);
}

/// Rank 0, where sums are made, stops: the others keep the deadline themselves.
TEST(GroupSums, EndSoonAfterTheDeadlineWhereRankZeroIsStuck) {
  constexpr int64_t kShortMs = 1000;
  Team team{.ranks = 3, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
              const isthmusGroupConfig_t config = config_of(false, static_cast<unsigned>(kShortMs * kPatience), 2);
              sum_once(rank, comm, config, ending);
              if (rank == 0) kill(getpid(), SIGSTOP);
              if (ending.result == ncclSuccess) sum_once(rank, comm, config, ending);
              isthmus::proc_test::report(ending);
              _exit(0);
            }};
  team.limit_ms = 7000;
  const std::vector<Ending> endings = run_team(team);
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(endings[rank].result, ncclRemoteError) << endings[rank].words();
    EXPECT_LE(endings[rank].moment_us - endings[rank].before_us, 1000 * (kShortMs * 3 / 2 + 1000 + 500) * kPatience);
  }
}

/// A call whose configuration is new on all ranks; `odd` has another codec, of which there is one or not.
std::string open_with(int rank, int odd, const char* codec, ncclComm_t comm) {
  isthmusGroupConfig_t config = config_of(false, 0, 0);
  config.codec = rank == odd ? codec : "thc";
  Ending ending;
  sum_once(rank, comm, config, ending);
  const bool in_time = ending.moment_us - ending.before_us < int64_t{5000000} * kPatience;
  return (ending.result == ncclSuccess ? "ok " : in_time ? "failed " : "late ") + ending.words();
}

TEST(GroupSums, OpenOnAllRanksOrOnNone) {
  Team team{.ranks = 3, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
              for (const char* codec : {"thc:b=8", "nonsense"}) {
                for (const int odd : {1, 0, 2}) {
                  const std::string words = open_with(rank, odd, codec, comm);
                  const bool says =
                      words.find("could") != std::string::npos || words.find("another one") != std::string::npos || rank == odd;
                  if (words.find("failed") != 0 || !says) return note(ending, ncclInternalError, words.c_str());
                  const std::string good = open_with(rank, -1, codec, comm);
                  if (good.find("ok survivors 7") != 0) return note(ending, ncclInternalError, good.c_str());
                  // All change it, or the next call would not open anything.
                  sum_once(rank, comm, config_of(false, 20000, 0), ending);
                  if (ending.result != ncclSuccess) return;
                }
              }
            }};
  team.limit_ms = 30000;
  for (const Ending& ending : run_team(team)) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

/// A call like the others' but that something is wrong with it.
enum class Wrong { nothing, quorum, buffer, weight };

ncclResult_t call_with(Wrong wrong, ncclComm_t comm, isthmusGroupInfo_t& info) {
  isthmusGroupConfig_t config = config_of(false, static_cast<unsigned>(20000 * kPatience), 2);
  if (wrong == Wrong::quorum) config.quorum = 9;
  std::vector<float> x(kCount, 1.0F);
  return isthmusGroupAllReduce(wrong == Wrong::buffer ? nullptr : x.data(), x.data(), kCount, ncclFloat32,
                               wrong == Wrong::weight ? std::nan("") : 1.0, comm, &config, &info, nullptr);
}

/// Rank 1 makes a wrong call, with which nothing could be opened yet or afterwards; sums that follow have everybody.
void err_once(int32_t rank, ncclComm_t comm, Ending& ending) {
  isthmusGroupInfo_t info = ISTHMUS_GROUP_INFO_INITIALIZER;
  const int64_t began = moment_us();
  for (const Wrong wrong : {Wrong::quorum, Wrong::buffer}) {
    const ncclResult_t result = call_with(rank == 1 ? wrong : Wrong::nothing, comm, info);
    if (result != (rank == 1 ? ncclInvalidArgument : ncclRemoteError)) return note(ending, ncclInternalError, "nothing can be opened");
  }
  for (const Wrong wrong : {Wrong::nothing, Wrong::weight, Wrong::quorum, Wrong::buffer, Wrong::nothing}) {
    const bool refused = rank == 1 && wrong != Wrong::nothing;
    if (call_with(refused ? wrong : Wrong::nothing, comm, info) != (refused ? ncclInvalidArgument : ncclSuccess))
      return note(ending, ncclInternalError);
    const double expected = wrong == Wrong::nothing ? 3 : 2;
    if (!refused && (info.ranks[0] != 7 || info.weightSum != expected)) return note(ending, ncclInternalError, "another round's mean");
    int step = 1;
    if (ncclAllReduce(&step, &step, 1, ncclInt32, ncclSum, comm, nullptr) != ncclSuccess) return note(ending, ncclInternalError);
  }
  const bool in_time = moment_us() - began < int64_t{10'000'000} * kPatience;
  note(ending, in_time ? ncclSuccess : ncclInternalError, in_time ? "" : "held up until the deadline");
}

TEST(GroupSums, GoOnWithoutWhoMakesAWrongCall) {
  Team team{.ranks = 3, .body = err_once};
  team.limit_ms = 60000;
  for (const Ending& ending : run_team(team)) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

TEST(GroupSums, RefuseOldEpochs) {
  Team team{.ranks = 3, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
              isthmusGroupConfig_t config = config_of(false, 6000, 2);
              sum_once(rank, comm, config, ending);
              config.epoch = rank == 2 ? 4 : 5;
              if (rank == 2) usleep(500000);
              sum_once(rank, comm, config, ending);
            }};
  const std::vector<Ending> endings = run_team(team);
  expect_same(endings, {0, 1}, "survivors 3,");
  EXPECT_EQ(endings[2].result, ncclInvalidUsage);
  EXPECT_THAT(endings[2].words(), HasSubstr("epoch 4"));
}

TEST(GroupSums, FailWithoutAQuorumAndSayWhoIsMissing) {
  Team team{.ranks = 3, .body = [](int32_t rank, ncclComm_t comm, Ending& ending) {
              const isthmusGroupConfig_t config = config_of(false, 1000, 3);
              sum_once(rank, comm, config, ending);
              if (rank == 2) usleep(2500000);
              if (rank != 2) sum_once(rank, comm, config, ending);
            }};
  const std::vector<Ending> endings = run_team(team);
  EXPECT_EQ(endings[0].result, ncclRemoteError);
  EXPECT_THAT(endings[0].words(), HasSubstr("missing: rank 2"));
}

TEST(GroupSums, RefuseWhatMakesNoSense) {
  Team team{.ranks = 2, .body = [](int32_t, ncclComm_t comm, Ending& ending) {
              std::vector<float> x(10, 1.0F);
              const auto call = [&](const isthmusGroupConfig_t& config, double weight = 1) {
                return isthmusGroupAllReduce(x.data(), x.data(), 10, ncclFloat32, weight, comm, &config, nullptr, nullptr);
              };
              isthmusGroupConfig_t config = config_of(true, 5000, 0);
              config.minCohort = 1;
              if (call(config) != ncclInvalidArgument) return note(ending, ncclInternalError, "a cohort of one");
              config.minCohort = 3;
              if (call(config) != ncclInvalidArgument) return note(ending, ncclInternalError, "three of two");
              config = config_of(true, 5000, 0);
              config.minCohort = 2;
              config.clip = 0;
              if (call(config) != ncclInvalidArgument) return note(ending, ncclInternalError, "no clip");
              config = config_of(false, 5000, 3);
              if (call(config) != ncclInvalidArgument) return note(ending, ncclInternalError, "a quorum of three of two");
              config = config_of(false, 5000, 0);
              config.noise = 1;
              if (call(config) != ncclInvalidArgument) return note(ending, ncclInternalError, "noise without masks");
              config = config_of(false, 5000, 0);
              config.size = 3;
              if (call(config) != ncclInvalidArgument) return note(ending, ncclInternalError, "another header");
              config = config_of(false, 5000, 0);
              if (call(config, 101) != ncclInvalidArgument) return note(ending, ncclInternalError, "a weight beyond the largest");
              note(ending, call(config), "");
            }};
  for (const Ending& ending : run_team(team)) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

/// Two ranks' vectors of `count` elements come to one mean, wherever one looks.
void sum_large(int rank, ncclComm_t comm, size_t count, Ending& ending) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>((i * 37 + static_cast<size_t>(rank)) % 1024) - 512;
  isthmusGroupConfig_t config = config_of(false, 0, 0);
  config.codec = "thc:b=8";
  isthmusGroupInfo_t info = ISTHMUS_GROUP_INFO_INITIALIZER;
  const ncclResult_t result = isthmusGroupAllReduce(x.data(), x.data(), count, ncclFloat32, 1, comm, &config, &info, nullptr);
  if (result != ncclSuccess) return note(ending, result);
  double wrong = 0, all = 0;
  for (size_t i = 0; i < count; ++i) {
    const double exact = static_cast<double>((i * 37) % 1024 + (i * 37 + 1) % 1024) / 2 - 512;
    wrong += (x[i] - exact) * (x[i] - exact);
    all += exact * exact;
  }
  if (wrong > 1e-3 * all) return note(ending, ncclInternalError, "wrong mean");
  note(ending, ncclSuccess, ("hash " + std::to_string(isthmus::hash_bytes(std::as_bytes(std::span(x))))).c_str());
}

// Takes 14 GiB and minutes, so it is run by name only (docs/testing.md).
TEST(GroupSums, DISABLED_PassTwoGibibytes) {
  constexpr size_t kEdge = (size_t{1} << 31) / sizeof(float);
  for (const size_t count : {kEdge - 1, kEdge, kEdge + 1}) {
    Team team{.ranks = 2, .body = [count](int32_t rank, ncclComm_t comm, Ending& ending) { sum_large(rank, comm, count, ending); }};
    team.limit_ms = 600000;
    expect_same(run_team(team), {0, 1}, "hash");
  }
}

}  // namespace
