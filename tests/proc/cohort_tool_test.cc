// SPDX-License-Identifier: Apache-2.0
// `isthmus aggregate --masked` with real processes: a member that is killed and started again, rules and epochs that do not fit. Part of
// test_aggregator, which has main().
#include <gmock/gmock.h>

#include "tests/patience.h"
#include "tests/proc/aggregate_server.h"

namespace {

using namespace isthmus::proc;
using isthmus::kPatience;
using ::testing::HasSubstr;

/// A masked cohort loses a member, goes on without it, and takes it back; nobody else is started anew.
TEST(CohortTool, AMaskedCohortGoesOnWithoutWhoDiesAndTakesItBack) {
  const Words cohort = {"--masked", "--clip", "2", "--largest-weight", "9"};
  Server server(4, plus(cohort, {"--quorum", "3", "--deadline", "1500ms"}));
  const Words usual = plus(cohort, {"--count", "50000", "--delay", "10ms"});
  std::vector<std::unique_ptr<Job>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::make_unique<Job>(server.rank(rank, plus(usual, {"--rounds", "40", "--weight", std::to_string(rank + 1)}))));
  Job victim(server.rank(3, plus(usual, {"--rounds", "1000", "--weight", "4"})));
  ASSERT_TRUE(victim.wait_for("\"round\":4,"));
  kill(victim.pid(), SIGKILL);
  std::map<uint64_t, std::set<std::string>> results;
  collect(victim.finish(), results);
  ASSERT_TRUE(ranks[0]->wait_for("\"contributors\":[0,1,2],"));
  Job again(server.rank(3, plus(usual, {"--rounds", "4", "--weight", "4"})));
  const Ended back = again.finish();
  EXPECT_EQ(back.exit_code, 0) << back.output;
  collect(back, results);
  EXPECT_THAT(back.output, HasSubstr("\"contributors\":[0,1,2,3],"));
  EXPECT_THAT(back.output, HasSubstr("\"weight_sum\":10.0,"));
  for (auto& rank : ranks) {
    const Ended ended = rank->finish();
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    collect(ended, results);
    for (const json& line : lines_of(ended.output)) EXPECT_LE(line["seconds"], 1.7 * kPatience) << line;
  }
  for (const auto& [round, hashes] : results) EXPECT_EQ(hashes.size(), 1U) << "round " << round;
  kill(server.job().pid(), SIGTERM);
  EXPECT_EQ(server.job().finish().exit_code, 0);
}

TEST(CohortTool, MembersOfACohortDemandItsRulesAndItsEpoch) {
  const Words cohort = {"--masked", "--clip", "2", "--min-cohort", "2"};
  Server server(2, plus(cohort, {"--deadline", "1s", "--epoch", "3"}));
  const Ended plain = run_program(server.rank(0));
  EXPECT_EQ(plain.exit_code, 1);
  EXPECT_THAT(plain.output, HasSubstr("wants plain sums, but the aggregator has sums of weights up to 1, masked"));
  const Ended stale = run_program(server.rank(0, plus(cohort, {"--epoch", "2"})));
  EXPECT_EQ(stale.exit_code, 1);
  EXPECT_THAT(stale.output, HasSubstr("epoch 2"));
  const Ended alone = run_program(server.rank(0, plus(cohort, {"--epoch", "3"})));
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.output, HasSubstr("missing: rank 1"));
}

}  // namespace
