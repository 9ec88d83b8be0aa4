// SPDX-License-Identifier: Apache-2.0
// What a process says about its operations. Some take long, with short limits: the warning names who is missing and what it does instead,
// the limit ends the operation, and the flight recorder's file tells the story. Others go well, and are traced and counted. Each rank is a
// process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

class Late : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "isthmus-late-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("ISTHMUS_WARN_AFTER", "300ms", 1);
    setenv("ISTHMUS_TIMEOUT", "1500ms", 1);
    setenv("ISTHMUS_DEBUG", "WARN", 1);
    setenv("ISTHMUS_DEBUG_FILE", (folder_ / "log.%p").c_str(), 1);
    setenv("ISTHMUS_RECORDER_FILE", (folder_ / "flight.%p").c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// All files whose name begins so, one after the other.
  [[nodiscard]] std::string texts(const std::string& prefix) const {
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (!entry.path().filename().string().starts_with(prefix)) continue;
      std::ifstream file(entry.path());
      text.append(std::istreambuf_iterator<char>(file), {});
    }
    return text;
  }

  std::filesystem::path folder_;
};

TEST_F(Late, MissingRankIsNamedAndTheLimitEndsTheCall) {
  const auto endings = run_team(3, [](int32_t rank, ncclComm_t comm, Ending& ending) {
    std::vector<float> data(100, 1);
    ncclResult_t result = ncclAllReduce(data.data(), data.data(), 100, ncclFloat, ncclSum, comm, nullptr);
    ending.before_us = moment_us();
    if (rank == 2) {
      usleep(2'500'000);
      ncclCommGetAsyncError(comm, &result);
    } else if (result == ncclSuccess) {
      result = ncclAllReduce(data.data(), data.data(), 50, ncclFloat, ncclSum, comm, nullptr);
    }
    note(ending, result);
  });
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclRemoteError) << ending.text.data();
    EXPECT_NE(std::string(ending.text.data()).find("longer than its limit of 1500 ms"), std::string::npos) << ending.text.data();
  }
  const std::string log = texts("log.");
  EXPECT_NE(log.find("call #1 allreduce count 50 float sum"), std::string::npos) << log;
  EXPECT_NE(log.find("has not made call #1; is in no call, its latest was call #0 allreduce count 100 float sum"), std::string::npos)
      << log;
  EXPECT_NE(log.find("the latest events are in " + folder_.string()), std::string::npos) << log;
  const std::string flight = texts("flight.");
  EXPECT_NE(flight.find("an operation takes long"), std::string::npos) << flight;
  EXPECT_NE(flight.find("call #0 allreduce count 100 float sum"), std::string::npos) << flight;
  EXPECT_NE(flight.find("ended after"), std::string::npos) << flight;
}

TEST_F(Late, TraceAndCountersAreWrittenAtDestroy) {
  setenv("ISTHMUS_TRACE_FILE", (folder_ / "trace.%p").c_str(), 1);
  setenv("ISTHMUS_DEBUG", "INFO", 1);
  const auto endings = run_team(2, [](int32_t, ncclComm_t comm, Ending& ending) {
    std::vector<float> data(100, 1);
    note(ending, ncclAllReduce(data.data(), data.data(), 100, ncclFloat, ncclSum, comm, nullptr));
    usleep(200'000);  // the team ends by aborting, which must not meet the other rank's call
  });
  unsetenv("ISTHMUS_TRACE_FILE");
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclSuccess) << ending.text.data();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (!entry.path().filename().string().starts_with("trace.")) continue;
    ++files;
    std::string text = texts(entry.path().filename());
    ASSERT_NE(text.rfind(','), std::string::npos);
    const auto events = nlohmann::json::parse(text.substr(0, text.rfind(',')) + "]");
    const auto calls = std::count_if(events.begin(), events.end(), [](const auto& event) { return event["ph"] == "X"; });
    EXPECT_EQ(calls, 1) << text;
  }
  EXPECT_EQ(files, 2);
  const std::string log = texts("log.");
  EXPECT_NE(log.find("The process so far: 1 calls (0 failed)"), std::string::npos) << log;
  EXPECT_NE(log.find("shm: 400 bytes sent, 400 received"), std::string::npos) << log;
}

// Whether two communicators used in crossed order stand still depends on threads that nobody sees: the warning tells both halves.
TEST_F(Late, CrossedCommunicatorsAreNamed) {
  const auto endings = run_team(2, [](int32_t rank, ncclComm_t comm, Ending& ending) {
    ncclComm_t other = nullptr;
    note(ending, ncclCommSplit(comm, 0, rank, &other, nullptr));
    if (ending.result != ncclSuccess) return;
    std::vector<float> data(100, 1);
    note(ending, ncclAllReduce(data.data(), data.data(), rank == 0 ? 70 : 80, ncclFloat, ncclSum, rank == 0 ? comm : other, nullptr));
    usleep(300'000);  // the team ends by aborting, which must not come before the other rank's limit
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclRemoteError) << ending.text.data();
  const std::string log = texts("log.");
  EXPECT_NE(log.find("allreduce count 70 float sum"), std::string::npos) << log;
  const size_t elsewhere = log.find("its process is in call #0 allreduce count 80 float sum");
  ASSERT_NE(elsewhere, std::string::npos) << log;
  EXPECT_NE(log.find("of communicator 0x", elsewhere), std::string::npos) << log;
}

}  // namespace
}  // namespace isthmus::proc_test
