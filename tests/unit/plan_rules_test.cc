// SPDX-License-Identifier: Apache-2.0
// Rule tables as text: what is written can be read back, and what cannot be read is refused with its place.
#include "plan/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::plan {
namespace {

using testing::HasSubstr;

RuleTable parsed(std::string_view text) {
  auto rules = parse_rules(text);
  EXPECT_TRUE(rules.ok()) << rules.status().text();
  return rules.ok() ? *rules : RuleTable();
}

std::string refusal(std::string_view text) {
  const auto rules = parse_rules(text);
  EXPECT_FALSE(rules.ok()) << text;
  return rules.ok() ? "" : rules.status().text();
}

TEST(Rules, ReadEveryWord) {
  const RuleTable rules = parsed("reduce_scatter network ranks=2-4 bytes=10-16384 ring segments=8\n");
  ASSERT_EQ(rules.size(), 1u);
  const Rule& rule = rules[0];
  EXPECT_EQ(rule.collective, Collective::reduce_scatter);
  EXPECT_EQ(rule.reach, Reach::network);
  EXPECT_EQ(rule.min_ranks, 2);
  EXPECT_EQ(rule.max_ranks, 4);
  EXPECT_EQ(rule.min_bytes, 10u);
  EXPECT_EQ(rule.max_bytes, 16384u);
  EXPECT_EQ(rule.algorithm, "ring");
  EXPECT_EQ(rule.segments, 8u);
}

TEST(Rules, LeaveOpenWhatIsNotSaid) {
  const RuleTable rules = parsed("allreduce host ring\nbarrier process ranks=3- bytes=7 x");
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].min_ranks, 1);
  EXPECT_EQ(rules[0].max_ranks, INT32_MAX);
  EXPECT_EQ(rules[0].min_bytes, 0u);
  EXPECT_EQ(rules[0].max_bytes, UINT64_MAX);
  EXPECT_EQ(rules[0].segments, 1u);
  EXPECT_EQ(rules[1].min_ranks, 3);
  EXPECT_EQ(rules[1].max_ranks, INT32_MAX);
  EXPECT_EQ(rules[1].min_bytes, 7u);
  EXPECT_EQ(rules[1].max_bytes, 7u);
}

TEST(Rules, SkipCommentsAndEmptyLines) {
  EXPECT_TRUE(parsed("").empty());
  EXPECT_EQ(parsed("# all\n\n   \n  allreduce   host  ring  # the rest\n").size(), 1u);
}

TEST(Rules, ReadBackAsWritten) {
  const std::string text =
      "allreduce host ranks=2-4 bytes=0-16384 recursive_doubling\n"
      "allreduce process ranks=5- ring segments=4\n"
      "broadcast network bytes=1048577- chain\n"
      "allgather network ranks=8- hierarchy segments=2 leaders=4\n"
      "allreduce network hierarchy leaders=4 across=one_shot\n"
      "barrier host dissemination\n";
  EXPECT_EQ(to_text(parsed(text)), text);
}

TEST(Rules, RefuseWithLineAndColumn) {
  EXPECT_THAT(refusal("\nallreduc host ring"), HasSubstr("line 2 column 1: \"allreduc\" is no collective; there are allreduce, "));
  EXPECT_THAT(refusal("allreduce  hst ring"), HasSubstr("line 1 column 12: \"hst\" is no reach; there are process, host, network"));
  EXPECT_THAT(refusal("allreduce host ring rnks=1"), HasSubstr("line 1 column 21: \"rnks=1\" is not one of"));
  EXPECT_THAT(refusal("allreduce host ring direct"), HasSubstr("column 21: \"direct\" is a second algorithm after \"ring\""));
  EXPECT_THAT(refusal("allreduce host ranks=4-2 ring"), HasSubstr("column 16: the range 4-2 ends before it begins"));
  EXPECT_THAT(refusal("allreduce host ranks=x ring"), HasSubstr("column 16: "));
  EXPECT_THAT(refusal("allreduce host ranks=1-99999999999 ring"), HasSubstr("column 16: "));
  EXPECT_THAT(refusal("allreduce host segments= ring"), HasSubstr("column 16: "));
  EXPECT_THAT(refusal("allreduce host hierarchy across=star"),
              HasSubstr("column 26: \"star\" is no way across sites; there are direct, ring"));
  EXPECT_THAT(refusal("allreduce host"), HasSubstr("line 1 column 15: no algorithm is named"));
  EXPECT_THAT(refusal("allreduce"), HasSubstr("no algorithm is named"));
}

}  // namespace
}  // namespace isthmus::plan
