// SPDX-License-Identifier: Apache-2.0
// `isthmus run` with real processes: exit codes, ranks that die, signals, output, hosts behind agents, the exchange, and that nothing
// stays behind. Usage: test_launcher ISTHMUS EXCHANGE_PROBE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/fd.h"

namespace {

using isthmus::Fd;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::Not;

std::string g_isthmus, g_probe;  // set once by main

struct Ended {
  int exit_code = -1;
  std::string output;  ///< standard output and error
  double seconds = 0;
};

/// A running `isthmus run`.
class Job {
 public:
  explicit Job(std::vector<std::string> words) : begin_(steady_clock::now()) {
    words.insert(words.begin(), {g_isthmus, "run"});
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
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(99);
    }
    close(ends[1]);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

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
    ended_.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    ended_.seconds = std::chrono::duration<double>(steady_clock::now() - begin_).count();
    return ended_;
  }

 private:
  bool read_some() {
    std::array<char, 4096> chunk;
    const ssize_t got = read(output_.get(), chunk.data(), chunk.size());
    if (got > 0) ended_.output.append(chunk.data(), static_cast<size_t>(got));
    return got > 0;
  }

  steady_clock::time_point begin_;
  pid_t pid_ = -1;
  Fd output_;
  Ended ended_;
};

Ended run(std::vector<std::string> words) { return Job(std::move(words)).finish(); }
std::vector<std::string> script(std::vector<std::string> options, const std::string& text) {
  options.insert(options.end(), {"--", "sh", "-c", text});
  return options;
}

/// Waits until no process with that id is left (a zombie of somebody else's counts as gone).
bool is_gone(pid_t pid) {
  for (int round = 0; round < 500; ++round) {
    if (kill(pid, 0) != 0) return true;
    std::string state;
    std::ifstream(("/proc/" + std::to_string(pid) + "/stat")) >> state >> state >> state;
    if (state == "Z") return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

/// The numbers after each "pid " in the output.
std::vector<pid_t> pids_in(const std::string& output) {
  std::vector<pid_t> pids;
  for (size_t at = output.find("pid "); at != std::string::npos; at = output.find("pid ", at + 1)) {
    pids.push_back(std::atoi(output.c_str() + at + 4));
  }
  return pids;
}

TEST(Launcher, RanksKnowWhoTheyAre) {
  const Ended ended =
      run(script({"-n", "3"}, "echo r$ISTHMUS_RUN_RANK/$ISTHMUS_RUN_SIZE l$ISTHMUS_RUN_LOCAL_RANK/$ISTHMUS_RUN_LOCAL_SIZE"));
  EXPECT_EQ(ended.exit_code, 0);
  for (const char* line : {"r0/3 l0/3\n", "r1/3 l1/3\n", "r2/3 l2/3\n"}) EXPECT_THAT(ended.output, HasSubstr(line));
}

TEST(Launcher, ExitCodeIsTheFirstFailures) {
  EXPECT_EQ(run(script({"-n", "2"}, "exit $((ISTHMUS_RUN_RANK * 7))")).exit_code, 7);
  const Ended killed = run(script({"-n", "2"}, "[ $ISTHMUS_RUN_RANK = 0 ] || kill -SEGV $$"));
  EXPECT_EQ(killed.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(killed.output, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(killed.output, HasSubstr("killed by signal 11"));
  const Ended missing = run({"-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_THAT(missing.output, HasSubstr("cannot run '/no/such/program'"));
}

TEST(Launcher, CommandLineMistakesExitWithTwo) {
  EXPECT_EQ(run({"-n", "2"}).exit_code, 2);
  EXPECT_EQ(run({"--", "true"}).exit_code, 2);
  EXPECT_EQ(run({"--bogus", "-n", "1", "--", "true"}).exit_code, 2);
  EXPECT_EQ(run({"-n", "1", "--hosts", "a", "--agent", "ssh", "--", "true"}).exit_code, 2);
  EXPECT_EQ(run({"-n", "2", "echo", "without", "-n", "dashes"}).output, "without -n dashes\nwithout -n dashes\n");
}

TEST(Launcher, SurvivorsGetTheGraceTimeAndThenEnd) {
  const std::string text = "trap '' TERM; echo pid $$; if [ $ISTHMUS_RUN_RANK = 1 ]; then exit 5; fi; sleep 60 & echo pid $!; wait";
  const Ended ended = run(script({"-n", "2", "--grace", "0.3"}, text));
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_THAT(ended.output, HasSubstr("exited with code 5"));
  EXPECT_GT(ended.seconds, 2);  // the grace time, then two seconds from SIGTERM, which is ignored, to SIGKILL
  EXPECT_LT(ended.seconds, 20);
  for (pid_t pid : pids_in(ended.output)) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(Launcher, SurvivorsMayEndByThemselves) {
  const Ended ended = run(script({"-n", "2", "--grace", "60"}, "[ $ISTHMUS_RUN_RANK = 1 ] && exit 5; sleep 0.3; echo done; exit 6"));
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_THAT(ended.output, HasSubstr("done"));
  EXPECT_LT(ended.seconds, 30);
}

TEST(Launcher, PassesSignalsOn) {
  Job usual(script({"-n", "2"}, "trap 'echo got; exit 0' USR1; echo ready$ISTHMUS_RUN_RANK; while :; do sleep 0.05; done"));
  ASSERT_TRUE(usual.wait_for("ready0") && usual.wait_for("ready1"));
  kill(usual.pid(), SIGUSR1);
  EXPECT_EQ(usual.finish().exit_code, 0);

  Job interrupted(script({"-n", "2"}, "echo pid $$; echo ready$ISTHMUS_RUN_RANK; sleep 60"));
  ASSERT_TRUE(interrupted.wait_for("ready0") && interrupted.wait_for("ready1"));
  kill(interrupted.pid(), SIGINT);
  const Ended ended = interrupted.finish();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  for (pid_t pid : pids_in(ended.output)) EXPECT_TRUE(is_gone(pid));
}

TEST(Launcher, ASecondInterruptEndsAtOnce) {
  Job stubborn(script({"-n", "1", "--grace", "60"}, "trap '' INT; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(stubborn.wait_for("ready"));
  kill(stubborn.pid(), SIGINT);
  std::this_thread::sleep_for(milliseconds(200));
  kill(stubborn.pid(), SIGINT);
  const Ended ended = stubborn.finish();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_LT(ended.seconds, 30);
}

TEST(Launcher, NothingOutlivesAKilledLauncher) {
  // One process of the rank stays in its group, one leaves it.
  Job job(script({"-n", "2"}, "sleep 60 & echo pid $!; setsid sleep 60 & echo pid $!; echo pid $$; echo ready$ISTHMUS_RUN_RANK; wait"));
  ASSERT_TRUE(job.wait_for("ready0") && job.wait_for("ready1"));
  kill(job.pid(), SIGKILL);
  const Ended ended = job.finish();  // returns only when everybody who held the pipe is gone
  const std::vector<pid_t> pids = pids_in(ended.output);
  EXPECT_EQ(pids.size(), 6U);
  for (pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(Launcher, NothingOutlivesARank) {
  const Ended ended = run(script({"-n", "1"}, "sleep 60 & echo pid $!; setsid sleep 60 & echo pid $!"));
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_LT(ended.seconds, 30);
  for (pid_t pid : pids_in(ended.output)) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(Launcher, TagsLines) {
  const Ended ended = run(script({"-n", "2", "--tag"}, "echo out; echo err >&2"));
  for (const char* line : {"[0] out\n", "[1] out\n", "[0] err\n", "[1] err\n"}) EXPECT_THAT(ended.output, HasSubstr(line));
}

TEST(Launcher, HostsAreReachedByTheirAgent) {
  const Ended ended = run(script({"-n", "4", "--hosts", "a,b", "--agent", "echo greeting; exec env WHERE={host}", "--env", "EXTRA=x y"},
                                 "echo $ISTHMUS_RUN_RANK on $WHERE local $ISTHMUS_RUN_LOCAL_RANK $EXTRA"));
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  for (const char* line : {"0 on a local 0 x y\n", "1 on a local 1 x y\n", "2 on b local 0 x y\n", "3 on b local 1 x y\n"}) {
    EXPECT_THAT(ended.output, HasSubstr(line));
  }
}

TEST(Launcher, AgentsThatFailAreNamed) {
  const Ended ended = run(script(
      {"--hosts", "a:1,b:1", "--grace", "0.2", "--agent", "[ {host} = a ] && echo Permission denied && exit 9; exec env"}, "sleep 60"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("lost a with ranks 0 to 0"));
  EXPECT_THAT(ended.output, HasSubstr("Permission denied"));
  EXPECT_THAT(ended.output, HasSubstr("exited with code 9"));
  EXPECT_LT(ended.seconds, 30);
}

TEST(Launcher, ServesTheExchange) {
  const Ended here = run({"-n", "4", "--", g_probe});
  EXPECT_EQ(here.exit_code, 0) << here.output;
  EXPECT_THAT(here.output, HasSubstr("rank 3 of 4 by isthmus run\n"));
  const Ended elsewhere = run({"-n", "5", "--hosts", "a,b", "--agent", "env H={host}", "--", g_probe});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.output;
  EXPECT_THAT(elsewhere.output, HasSubstr("rank 4 of 5 by isthmus run\n"));
}

TEST(Launcher, AnExchangeWithARankThatLeftFails) {
  const Ended ended = run({"-n", "3", "--", g_probe, "leave"});
  EXPECT_EQ(ended.exit_code, 4) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("rank 1 has left"));
  EXPECT_THAT(ended.output, Not(HasSubstr("by isthmus run")));
}

TEST(Launcher, NestsAndCarriesMuchOutput) {
  const Ended nested = run({"-n", "2", "--", g_isthmus, "run", "-n", "2", "--", g_probe});
  EXPECT_EQ(nested.exit_code, 0) << nested.output;
  EXPECT_THAT(nested.output, HasSubstr("rank 1 of 2"));
  const Ended much =
      run(script({"-n", "2", "--hosts", "a,b", "--agent", "env H={host}"}, "head -c 5000000 /dev/zero | tr '\\0' x; echo; " + g_probe));
  EXPECT_EQ(much.exit_code, 0);
  EXPECT_GT(much.output.size(), 10'000'000U);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) return 2;
  g_isthmus = argv[1];
  g_probe = argv[2];
  return RUN_ALL_TESTS();
}
