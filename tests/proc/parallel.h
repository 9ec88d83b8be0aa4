// SPDX-License-Identifier: Apache-2.0
// Cases of one test that mostly wait, run side by side: each in a process of its own, so that each may fork its own ranks. Used by
// tests/proc; a failed expectation in a case fails the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace isthmus::proc_test {

struct Case {
  std::string name;
  std::function<void()> run;  ///< ends by itself
};

inline void run_in_parallel(const std::vector<Case>& cases) {
  std::fflush(stdout);
  std::vector<pid_t> pids;
  for (const Case& each : cases) {
    const pid_t pid = fork();
    if (pid == 0) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, each.name);
      each.run();
      std::fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    pids.push_back(pid);
  }
  for (size_t i = 0; i < pids.size(); ++i) {
    int status = -1;
    waitpid(pids[i], &status, 0);
    EXPECT_EQ(status, 0) << cases[i].name;
  }
}

}  // namespace isthmus::proc_test
