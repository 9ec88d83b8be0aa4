// SPDX-License-Identifier: Apache-2.0
// A team of forked ranks that use the C API, for tests of what happens when things go wrong: each rank runs a body and reports how it
// ended. Used by tests/proc; ends everything it started at its deadline, by process id.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "nccl.h"

namespace isthmus::proc_test {

/// How one rank ended.
struct Ending {
  int32_t rank = -1;
  int32_t result = -1;    ///< ncclResult_t, or -1: no report (killed, or hangs)
  int64_t moment_us = 0;  ///< on the machine's monotonic clock
  int64_t before_us = 0;  ///< the moment of the last good thing the rank saw
  std::array<char, 512> text{};
};

inline int64_t moment_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a rank does with its communicator; fills result, moments and text.
using Body = std::function<void(int32_t rank, ncclComm_t comm, Ending& ending)>;

inline void note(Ending& ending, ncclResult_t result) {
  ending.result = result;
  ending.moment_us = moment_us();
  std::strncpy(ending.text.data(), ncclGetLastError(nullptr), ending.text.size() - 1);
}

/// Runs `ranks` processes; a rank that has not reported after `limit_ms` is killed and keeps result -1.
inline std::vector<Ending> run_team(int32_t ranks, const Body& body, int limit_ms = 15'000) {
  std::array<int, 2> reports{};
  std::array<int, 2> ids{};
  if (pipe(reports.data()) != 0 || pipe(ids.data()) != 0) return {};
  std::vector<pid_t> pids;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid != 0) {
      pids.push_back(pid);
      continue;
    }
    setenv("ISTHMUS_DEBUG", "NONE", 0);  // what goes wrong here is meant to
    Ending ending;
    ending.rank = rank;
    ncclUniqueId id{};
    if (rank == 0) {
      note(ending, ncclGetUniqueId(&id));
      for (int32_t other = 1; other < ranks; ++other) {
        if (write(ids[1], &id, sizeof(id)) != sizeof(id)) _exit(2);
      }
    } else if (read(ids[0], &id, sizeof(id)) != sizeof(id)) {
      _exit(2);
    }
    ncclComm_t comm = nullptr;
    note(ending, ncclCommInitRank(&comm, ranks, id, rank));
    if (ending.result == ncclSuccess) body(rank, comm, ending);
    if (write(reports[1], &ending, sizeof(ending)) != sizeof(ending)) _exit(2);
    if (comm != nullptr) ncclCommAbort(comm);
    _exit(0);
  }
  close(reports[1]);
  close(ids[0]);
  close(ids[1]);
  std::vector<Ending> endings(static_cast<size_t>(ranks));
  const int64_t deadline = moment_us() + int64_t{1000} * limit_ms;
  for (int64_t left = deadline - moment_us(); left > 0; left = deadline - moment_us()) {
    pollfd ready{.fd = reports[0], .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(left / 1000) + 1) <= 0) break;
    Ending ending;
    if (read(reports[0], &ending, sizeof(ending)) != sizeof(ending)) break;  // all have closed
    endings[static_cast<size_t>(ending.rank)] = ending;
  }
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  close(reports[0]);
  return endings;
}

}  // namespace isthmus::proc_test
