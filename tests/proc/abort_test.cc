// SPDX-License-Identifier: Apache-2.0
// ncclCommAbort from another thread, during every kind of call, at random moments: it returns at once, the call it struck returns an
// error, the other ranks learn who aborted, and communicators beside the aborted one go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "isthmus.h"
#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

constexpr int32_t kRanks = 3;
constexpr int64_t kPromisedUs = 100'000 * kPatience;

/// What the aborter is in the middle of.
enum class Scene : uint32_t { blocked, running, queued, grouped, splitting, finalizing, destroying };
constexpr uint32_t kScenes = 7;
const char* const kSceneNames[] = {"blocked", "running", "queued", "grouped", "splitting", "finalizing", "destroying"};

struct Trial {
  Scene scene = Scene::blocked;
  int32_t aborter = 0;
  useconds_t delay_us = 0;
  size_t count = 0;
};

struct Outcome {
  ncclResult_t result = ncclSuccess;
  std::string text;
};

Outcome outcome_of(ncclResult_t result) { return {.result = result, .text = result == ncclSuccess ? "" : ncclGetLastError(nullptr)}; }

ncclResult_t allreduce(std::vector<float>& data, ncclComm_t comm, cudaStream_t stream = nullptr) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, stream);
}

/// Calls queued on a stream, then one that waits for them and ends only because the communicator does. The first failure.
template <typename Call>
Outcome call_behind_a_queue(std::vector<float>& data, ncclComm_t comm, Call call) {
  cudaStream_t stream = nullptr;
  isthmusStreamCreate(&stream);
  Outcome outcome;
  for (int i = 0; i < 3 && outcome.result == ncclSuccess; ++i) outcome = outcome_of(allreduce(data, comm, stream));
  if (outcome.result == ncclSuccess) outcome = outcome_of(call(comm));
  const Outcome queued = outcome_of(isthmusStreamSynchronize(stream));
  isthmusStreamDestroy(stream);
  return outcome.result == ncclSuccess ? queued : outcome;
}

/// The aborter's call; its other thread aborts meanwhile.
Outcome struck_call(const Trial& trial, ncclComm_t comm) {
  std::vector<float> data(trial.count, 1);
  ncclComm_t part = nullptr;
  switch (trial.scene) {
    case Scene::blocked:
      return outcome_of(allreduce(data, comm));
    case Scene::running:
      for (ncclResult_t result = ncclSuccess;;) {
        result = allreduce(data, comm);
        if (result != ncclSuccess) return outcome_of(result);
      }
    case Scene::queued:
      return call_behind_a_queue(data, comm, [](ncclComm_t) { return ncclSuccess; });
    case Scene::grouped:
      ncclGroupStart();
      if (const ncclResult_t added = allreduce(data, comm); added != ncclSuccess) {
        const Outcome outcome = outcome_of(added);
        ncclGroupEnd();
        return outcome;
      }
      usleep(trial.delay_us * 2);
      return outcome_of(ncclGroupEnd());
    case Scene::splitting:
      return outcome_of(ncclCommSplit(comm, 0, 0, &part, nullptr));
    case Scene::finalizing:
      return call_behind_a_queue(data, comm, ncclCommFinalize);
    case Scene::destroying:
      return call_behind_a_queue(data, comm, ncclCommDestroy);
  }
  return {};
}

/// What the other ranks do: take part where calls run, else wait to be told.
Outcome bystander(const Trial& trial, ncclComm_t comm) {
  std::vector<float> data(trial.count, 1);
  const int64_t until = moment_us() + 5'000'000;
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess && moment_us() < until) {
    if (trial.scene == Scene::running) {
      result = allreduce(data, comm);
    } else {
      ncclCommGetAsyncError(comm, &result);
      usleep(200);
    }
  }
  return outcome_of(result);
}

struct Tally {
  std::string complaint;
  std::vector<int64_t> abort_us;
};

void abort_meanwhile(const Trial& trial, ncclComm_t comm, Tally& tally) {
  Outcome struck;
  std::thread caller([&] { struck = struck_call(trial, comm); });
  usleep(trial.delay_us);
  const int64_t begun = moment_us();
  const ncclResult_t aborted = ncclCommAbort(comm);
  tally.abort_us.push_back(moment_us() - begun);
  caller.join();
  // Where the caller frees the communicator itself, it may have been faster.
  if (aborted != ncclSuccess && trial.scene != Scene::destroying) tally.complaint = "abort returned " + std::to_string(aborted);
  if (struck.result == ncclSuccess) tally.complaint = "the call that was struck returned success";
}

void one_trial(const Trial& trial, int32_t rank, ncclComm_t base, Tally& tally) {
  ncclComm_t comm = nullptr;
  if (ncclCommSplit(base, 0, rank, &comm, nullptr) != ncclSuccess) {
    tally.complaint = std::string("split: ") + ncclGetLastError(nullptr);
    return;
  }
  if (rank == trial.aborter) return abort_meanwhile(trial, comm, tally);
  const Outcome told = bystander(trial, comm);
  const bool named = told.text.find("rank " + std::to_string(trial.aborter)) != std::string::npos;
  if (told.result != ncclRemoteError || !named) {
    tally.complaint =
        "rank " + std::to_string(trial.aborter) + " aborted, but this one was told " + std::to_string(told.result) + " " + told.text;
  }
  ncclCommAbort(comm);
}

void run_trials(int32_t rank, ncclComm_t base, int trials, Ending& ending) {
  std::mt19937_64 dice(7);  // the same on all ranks
  Tally tally;
  for (int i = 0; i < trials; ++i) {
    const Trial trial{.scene = static_cast<Scene>(static_cast<uint32_t>(i) % kScenes),
                      .aborter = static_cast<int32_t>(dice() % kRanks),
                      .delay_us = static_cast<useconds_t>(dice() % 8'000),
                      .count = size_t{1} << (dice() % 21)};
    one_trial(trial, rank, base, tally);
    if (tally.complaint.empty() && !sum_is_right(rank, kRanks, base, 100, ending)) tally.complaint = "afterwards: " + ending.words();
    if (tally.complaint.empty()) continue;
    const std::string text = "trial " + std::to_string(i) + ", " + kSceneNames[static_cast<uint32_t>(trial.scene)] + ": " + tally.complaint;
    return note(ending, ncclInternalError, text.c_str());
  }
  std::sort(tally.abort_us.begin(), tally.abort_us.end());
  ending.before_us = tally.abort_us[tally.abort_us.size() * 9 / 10];
  ending.moment_us = tally.abort_us.back();
}

TEST(Abort, FromAnotherThreadDuringEveryCall) {
  const auto endings =
      run_team({.ranks = kRanks,
                .body = [](int32_t rank, ncclComm_t comm, Ending& ending) { run_trials(rank, comm, 12 * kScenes, ending); },
                .limit_ms = 60'000});
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclSuccess) << "rank " << ending.rank << ": " << ending.words();
    EXPECT_TRUE(ending.exited(0)) << "rank " << ending.rank << " ended with " << ending.wait_status;
    EXPECT_LT(ending.before_us, kPromisedUs) << "one abort in ten is slower";
    EXPECT_LT(ending.moment_us, 20 * kPromisedUs);
    std::printf("rank %d aborts: nine in ten within %.1f ms, all within %.1f ms\n", ending.rank,
                static_cast<double>(ending.before_us) / 1000, static_cast<double>(ending.moment_us) / 1000);
  }
}

TEST(Abort, OfOneRankAmongSeveralOfOneProcess) {
  const auto endings = run_team({.ranks = 1, .body = [](int32_t, ncclComm_t, Ending& ending) {
                                   for (int trial = 0; trial < 20; ++trial) {
                                     std::array<ncclComm_t, 2> comms{};
                                     note(ending, ncclCommInitAll(comms.data(), 2, nullptr));
                                     std::vector<float> data(100'000, 1);
                                     Outcome struck;
                                     std::thread caller([&] { struck = outcome_of(allreduce(data, comms[0])); });
                                     usleep(static_cast<useconds_t>(100 * trial));
                                     ncclCommAbort(comms[0]);
                                     caller.join();
                                     ncclResult_t told = ncclSuccess;
                                     ncclCommGetAsyncError(comms[1], &told);
                                     if (struck.result == ncclSuccess || told != ncclRemoteError)
                                       return note(ending, ncclInternalError, "not told");
                                     ncclCommAbort(comms[1]);
                                   }
                                 }});
  EXPECT_EQ(endings[0].result, ncclSuccess) << endings[0].words();
  EXPECT_TRUE(endings[0].exited(0)) << endings[0].wait_status;
}

// Rank 0 waits for a communicator that will not form; meanwhile another is aborted. Then the first says who was missing.
TEST(Abort, WhileAnotherCommunicatorForms) {
  const auto endings = run_team({.ranks = 2,
                                 .body =
                                     [](int32_t rank, ncclComm_t comm, Ending& ending) {
                                       if (rank == 1) {
                                         ncclResult_t told = ncclSuccess;
                                         for (int i = 0; told == ncclSuccess && i < 10'000; ++i, usleep(1000))
                                           ncclCommGetAsyncError(comm, &told);
                                         return note(ending, told);
                                       }
                                       Outcome formed;
                                       std::thread joiner([&] {
                                         ncclUniqueId id{};
                                         ncclGetUniqueId(&id);
                                         ncclComm_t never = nullptr;
                                         formed = outcome_of(ncclCommInitRank(&never, 3, id, 0));
                                       });
                                       usleep(300'000);
                                       ending.before_us = moment_us();
                                       const ncclResult_t aborted = ncclCommAbort(comm);
                                       const int64_t took_us = moment_us() - ending.before_us;
                                       joiner.join();
                                       note(ending, aborted == ncclSuccess ? formed.result : aborted, formed.text.c_str());
                                       ending.before_us = took_us;
                                     },
                                 .prepare = [](int32_t) { setenv("ISTHMUS_SETUP_TIMEOUT", "2s", 1); }});
  EXPECT_EQ(endings[0].result, ncclRemoteError);
  EXPECT_TRUE(endings[0].says("2 of 3 ranks did not arrive within 2 s: 1-2")) << endings[0].words();
  EXPECT_LT(endings[0].before_us, 5 * kPromisedUs);
  EXPECT_EQ(endings[1].result, ncclRemoteError) << endings[1].words();
  EXPECT_TRUE(endings[1].says("rank 0")) << endings[1].words();
}

}  // namespace
}  // namespace isthmus::proc_test
