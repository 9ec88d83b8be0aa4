// SPDX-License-Identifier: Apache-2.0
// A team of forked ranks that use the C API, for tests of what happens when things go wrong: each rank runs a body and reports how it
// ended. Used by tests/proc; ends everything it started at its deadline, by process id.
#pragma once

#include <dirent.h>
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
#include "tests/patience.h"

namespace isthmus::proc_test {

/// How one rank ended.
struct Ending {
  int32_t rank = -1;
  int32_t result = -1;       ///< ncclResult_t, or -1: no report (killed, or hangs)
  int64_t moment_us = 0;     ///< on the machine's monotonic clock
  int64_t before_us = 0;     ///< the moment of the last good thing the rank saw
  int32_t wait_status = -1;  ///< as waitpid gave it; -1: it had to be killed at the deadline
  std::array<char, 1024> text{};

  [[nodiscard]] std::string words() const { return text.data(); }
  [[nodiscard]] bool says(const std::string& part) const { return words().find(part) != std::string::npos; }
  [[nodiscard]] bool exited(int code) const { return wait_status >= 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code; }
};

inline int64_t moment_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a rank does with its communicator; fills result, moments and text.
using Body = std::function<void(int32_t rank, ncclComm_t comm, Ending& ending)>;

inline void note(Ending& ending, ncclResult_t result, const char* text = nullptr) {
  ending.result = result;
  ending.moment_us = moment_us();
  ending.text = {};
  std::strncpy(ending.text.data(), text != nullptr ? text : ncclGetLastError(nullptr), ending.text.size() - 1);
}

/// Where this rank's report goes; for bodies that end their process themselves.
inline int report_fd = -1;
inline void report(const Ending& ending) {
  if (write(report_fd, &ending, sizeof(ending)) != sizeof(ending)) _exit(2);
}

struct Team {
  int32_t ranks = 2;
  Body body;
  int limit_ms = 15'000;                                     ///< times kPatience; a rank that has not ended by then is killed
  std::function<void(int32_t rank)> prepare;                 ///< in the rank's process, before it uses the library
  std::function<void(int32_t rank, ncclUniqueId& id)> meet;  ///< the same, just before it joins
  std::function<void(const std::vector<pid_t>&)> meanwhile;  ///< in the test's process, once all have been started
  bool own_ids = false;                                      ///< each rank makes the id itself (NCCL_COMM_ID)
};

namespace team_detail {

inline ncclUniqueId common_id(const Team& team, int32_t rank, const std::array<int, 2>& ids, Ending& ending) {
  ncclUniqueId id{};
  if (rank == 0 || team.own_ids) note(ending, ncclGetUniqueId(&id));
  if (team.own_ids) return id;
  for (int32_t other = 1; rank == 0 && other < team.ranks; ++other) {
    if (write(ids[1], &id, sizeof(id)) != sizeof(id)) _exit(2);
  }
  if (rank != 0 && read(ids[0], &id, sizeof(id)) != sizeof(id)) _exit(2);
  return id;
}

[[noreturn]] inline void be_rank(const Team& team, int32_t rank, const std::array<int, 2>& ids) {
  Ending ending;
  ending.rank = rank;
  setenv("ISTHMUS_DEBUG", "NONE", 0);  // what goes wrong here is meant to
  if (team.prepare) team.prepare(rank);
  ncclUniqueId id = common_id(team, rank, ids, ending);
  if (team.meet) team.meet(rank, id);
  ncclComm_t comm = nullptr;
  const bool has_id = ending.result == ncclSuccess || (rank != 0 && !team.own_ids);
  if (has_id) note(ending, ncclCommInitRank(&comm, team.ranks, id, rank));
  if (ending.result == ncclSuccess) team.body(rank, comm, ending);
  report(ending);
  if (comm != nullptr) (ending.result == ncclSuccess ? ncclCommDestroy : ncclCommAbort)(comm);
  _exit(0);
}

/// Waits for the process until the deadline, then ends it.
inline int32_t await(pid_t pid, int64_t deadline_us) {
  int status = 0;
  for (;; usleep(1000)) {
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    if (moment_us() >= deadline_us) break;
  }
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  return -1;
}

}  // namespace team_detail

/// Starts the ranks and collects their endings, by rank. The caller's process must not have used the library itself.
inline std::vector<Ending> run_team(const Team& team) {
  std::array<int, 2> reports{};
  std::array<int, 2> ids{};
  if (pipe(reports.data()) != 0 || pipe(ids.data()) != 0) return {};
  std::vector<pid_t> pids;
  for (int32_t rank = 0; rank < team.ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      close(reports[0]);
      report_fd = reports[1];
      team_detail::be_rank(team, rank, ids);
    }
    pids.push_back(pid);
  }
  close(reports[1]);
  close(ids[0]);
  close(ids[1]);
  if (team.meanwhile) team.meanwhile(pids);
  std::vector<Ending> endings(static_cast<size_t>(team.ranks));
  const int64_t deadline = moment_us() + int64_t{1000} * kPatience * team.limit_ms;
  for (int64_t left = deadline - moment_us(); left > 0; left = deadline - moment_us()) {
    pollfd ready{.fd = reports[0], .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(left / 1000) + 1) <= 0) break;
    Ending ending;
    if (read(reports[0], &ending, sizeof(ending)) != sizeof(ending)) break;  // all have closed
    endings[static_cast<size_t>(ending.rank)] = ending;
  }
  for (size_t rank = 0; rank < pids.size(); ++rank) endings[rank].wait_status = team_detail::await(pids[rank], deadline);
  close(reports[0]);
  return endings;
}

inline std::vector<Ending> run_team(int32_t ranks, const Body& body, int limit_ms = 15'000) {
  return run_team(Team{.ranks = ranks, .body = body, .limit_ms = limit_ms});
}

/// What the bodies check their sums with: an allreduce of `count` elements that are all rank + 1. ncclSuccess and right, or the failure
/// noted; a wrong sum is noted as ncclInternalError.
inline bool sum_is_right(int32_t rank, int32_t ranks, ncclComm_t comm, size_t count, Ending& ending) {
  std::vector<float> data(count, static_cast<float>(rank + 1));
  const ncclResult_t result = ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, nullptr);
  if (result != ncclSuccess) {
    note(ending, result);
    return false;
  }
  const int32_t sum = ranks * (ranks + 1) / 2;
  const auto expected = static_cast<float>(sum);
  for (const float each : data) {
    if (each == expected) continue;
    note(ending, ncclInternalError, "a sum is wrong");
    return false;
  }
  ending.result = ncclSuccess;
  return true;
}

/// Entries of a folder of /proc or /dev, less the descriptor that reads it.
inline std::vector<std::string> names_in(const char* path) {
  std::vector<std::string> names;
  DIR* folder = opendir(path);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(folder);
  return names;
}

/// Open descriptors of this process.
inline int count_descriptors() { return static_cast<int>(names_in("/proc/self/fd").size()) - 1; }

}  // namespace isthmus::proc_test
