// SPDX-License-Identifier: Apache-2.0
// `isthmus run` with real processes: exit codes, ranks that die, signals, output, hosts behind agents, the exchange, and that nothing
// stays behind. Usage: test_launcher ISTHMUS EXCHANGE_PROBE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/proc/job.h"

namespace {

using isthmus::proc::Ended;
using isthmus::proc::is_gone;
using isthmus::proc::Job;
using isthmus::proc::pids_in;
using isthmus::proc::run_program;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::string g_isthmus, g_probe;  // set once by main

/// `isthmus run` with these words after it.
std::vector<std::string> launcher(std::vector<std::string> words) {
  words.insert(words.begin(), {g_isthmus, "run"});
  return words;
}
Ended run(std::vector<std::string> words) { return run_program(launcher(std::move(words))); }
std::vector<std::string> script(std::vector<std::string> options, const std::string& text) {
  options.insert(options.end(), {"--", "sh", "-c", text});
  return options;
}

std::vector<std::string> launched(std::vector<std::string> options, const std::string& text) {
  return launcher(script(std::move(options), text));
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
  Job usual(launched({"-n", "2"}, "trap 'echo got; exit 0' USR1; echo ready$ISTHMUS_RUN_RANK; while :; do sleep 0.05; done"));
  ASSERT_TRUE(usual.wait_for("ready0") && usual.wait_for("ready1"));
  kill(usual.pid(), SIGUSR1);
  EXPECT_EQ(usual.finish().exit_code, 0);

  Job interrupted(launched({"-n", "2"}, "echo pid $$; echo ready$ISTHMUS_RUN_RANK; sleep 60"));
  ASSERT_TRUE(interrupted.wait_for("ready0") && interrupted.wait_for("ready1"));
  kill(interrupted.pid(), SIGINT);
  const Ended ended = interrupted.finish();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  for (pid_t pid : pids_in(ended.output)) EXPECT_TRUE(is_gone(pid));
}

TEST(Launcher, ASecondInterruptEndsAtOnce) {
  Job stubborn(launched({"-n", "1", "--grace", "60"}, "trap '' INT; echo ready; while :; do sleep 0.05; done"));
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
  Job job(launched({"-n", "2"}, "sleep 60 & echo pid $!; setsid sleep 60 & echo pid $!; echo pid $$; echo ready$ISTHMUS_RUN_RANK; wait"));
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
