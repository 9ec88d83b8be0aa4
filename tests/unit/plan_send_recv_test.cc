// SPDX-License-Identifier: Apache-2.0
// Grouped send/recv as plans: message numbers, self-transfers, zero bytes, refusals, and reuse without allocation.
#include "plan/send_recv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace isthmus::plan {
namespace {

using testing::HasSubstr;

struct Built {
  Plan plan;
  Binding binding;
  Status status;
};

Built built(int32_t rank, int32_t ranks, const std::vector<Transfer>& transfers) {
  Built result;
  result.status = build_send_recv(rank, ranks, transfers, result.plan, result.binding);
  return result;
}

TEST(PlanSendRecv, NumbersMessagesPerPeerAndDirection) {
  const auto [plan, binding, status] = built(1, 4, {{0, true, 8}, {0, false, 16}, {2, true, 0}, {0, true, 5}});
  ASSERT_TRUE(status.ok()) << status.text();
  ASSERT_EQ(plan.steps.size(), 4U);
  EXPECT_EQ(plan.steps[0].ordinal, 0U);
  EXPECT_EQ(plan.steps[1].ordinal, 0U);
  EXPECT_EQ(plan.steps[3].ordinal, 1U);
  EXPECT_EQ(chunk_bytes(plan, plan.steps[1].dst(), binding, 1), 16U);
  EXPECT_EQ(chunk_bytes(plan, plan.steps[2].src(), binding, 1), 0U);
  EXPECT_EQ(chunk_bytes(plan, plan.steps[3].src(), binding, 1), 5U);
  EXPECT_EQ(chunk_offset_bytes(plan, plan.steps[3].src(), binding, 1), 0U);  // each region is a buffer of its own
  ASSERT_EQ(plan.peers.size(), 2U);
  EXPECT_EQ(plan.peers[0].sends, 2U);
  EXPECT_EQ(plan.peers[0].recvs, 1U);
}

TEST(PlanSendRecv, SelfTransfersPairInOrder) {
  const auto [plan, binding, status] = built(0, 2, {{0, true, 4}, {0, true, 6}, {0, false, 4}, {1, true, 1}, {0, false, 6}});
  ASSERT_TRUE(status.ok()) << status.text();
  ASSERT_EQ(plan.steps.size(), 3U);
  EXPECT_EQ(plan.steps[1].kind, StepKind::copy);
  EXPECT_EQ(plan.steps[1].src_region, kFirstUser + 0);
  EXPECT_EQ(plan.steps[1].dst_region, kFirstUser + 2);
  EXPECT_EQ(plan.steps[2].src_region, kFirstUser + 1);
  EXPECT_EQ(plan.steps[2].dst_region, kFirstUser + 4);
}

TEST(PlanSendRecv, RefusesWhatCannotPair) {
  EXPECT_THAT(built(0, 2, {{0, true, 4}}).status.text(), HasSubstr("sends to itself"));
  EXPECT_THAT(built(0, 2, {{0, false, 4}}).status.text(), HasSubstr("receives from itself"));
  EXPECT_THAT(built(0, 2, {{0, false, 4}, {0, true, 5}}).status.text(), HasSubstr("5 bytes"));
  EXPECT_THAT(built(0, 2, {{2, true, 4}}).status.text(), HasSubstr("peer 2"));
  EXPECT_EQ(built(0, 2, {{-1, true, 4}}).status.code(), Code::invalid_argument);
}

TEST(PlanSendRecv, AnEmptyGroupIsAnEmptyPlan) {
  const auto [plan, binding, status] = built(0, 2, {});
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(plan.steps.empty());
}

TEST(PlanSendRecv, RebuildingReusesTheMemory) {
  Plan plan;
  Binding binding;
  const std::vector<Transfer> many = {{1, true, 8}, {1, false, 16}, {2, true, 1}, {0, true, 3}, {0, false, 3}};
  ASSERT_TRUE(build_send_recv(0, 3, many, plan, binding).ok());
  const void* steps = plan.steps.data();
  const void* offsets = binding.offsets.data();
  const uint64_t hash = plan.hash();
  ASSERT_TRUE(build_send_recv(0, 3, std::vector<Transfer>{{1, true, 8}}, plan, binding).ok());
  EXPECT_NE(plan.hash(), hash);
  ASSERT_TRUE(build_send_recv(0, 3, many, plan, binding).ok());
  EXPECT_EQ(plan.steps.data(), steps);
  EXPECT_EQ(binding.offsets.data(), offsets);
  EXPECT_EQ(plan.hash(), hash);
}

}  // namespace
}  // namespace isthmus::plan
