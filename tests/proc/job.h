// SPDX-License-Identifier: Apache-2.0
// A program under test as a child process: start it, follow what it prints, signal it by its id, learn how it ended. Used by the
// process tests; failures to start show as exit code 99.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace isthmus::proc {

struct Ended {
  int exit_code = -1;
  std::string output;  ///< standard output and error
  double seconds = 0;
};

/// A running program; words[0] is its path.
class Job {
 public:
  explicit Job(std::vector<std::string> words) : begin_(std::chrono::steady_clock::now()) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    output_.reset(ends[0]);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      std::vector<char*> argv;
      argv.reserve(words.size() + 1);
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(99);
    }
    close(ends[1]);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// A program that nobody waited for is ended, so that no test leaves one behind.
  ~Job() {
    if (pid_ <= 0 || finished_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// What has been read of its output so far.
  [[nodiscard]] const std::string& output() const { return ended_.output; }

  /// Reads until the output holds `text`, or its end.
  bool wait_for(const std::string& text) {
    while (ended_.output.find(text) == std::string::npos && read_some()) {
    }
    return ended_.output.find(text) != std::string::npos;
  }

  Ended finish() {
    while (read_some()) {
    }
    int wait_status = 0;
    waitpid(pid_, &wait_status, 0);
    finished_ = true;
    ended_.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    ended_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return ended_;
  }

 private:
  bool read_some() {
    std::array<char, 4096> chunk;
    const ssize_t got = read(output_.get(), chunk.data(), chunk.size());
    if (got > 0) ended_.output.append(chunk.data(), static_cast<size_t>(got));
    return got > 0;
  }

  std::chrono::steady_clock::time_point begin_;
  pid_t pid_ = -1;
  bool finished_ = false;
  Fd output_;
  Ended ended_;
};

/// Waits until no process with that id is left (a zombie of somebody else's counts as gone).
inline bool is_gone(pid_t pid) {
  for (int round = 0; round < 500; ++round) {
    if (kill(pid, 0) != 0) return true;
    std::string state;
    std::ifstream(("/proc/" + std::to_string(pid) + "/stat")) >> state >> state >> state;
    if (state == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// The numbers after each "pid " in the output.
inline std::vector<pid_t> pids_in(const std::string& output) {
  std::vector<pid_t> pids;
  for (size_t at = output.find("pid "); at != std::string::npos; at = output.find("pid ", at + 1)) {
    pids.push_back(std::atoi(output.c_str() + at + 4));
  }
  return pids;
}

/// Runs a program to its end.
inline Ended run_program(std::vector<std::string> words) { return Job(std::move(words)).finish(); }

}  // namespace isthmus::proc
