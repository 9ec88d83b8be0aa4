// SPDX-License-Identifier: Apache-2.0
// nccl.h keeps NCCL's binary interface: sizes, offsets and values as documented, and, where the machine has NVIDIA's header,
// as that header has them. api_header_c.c shows that a C compiler takes both of our headers.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "isthmus.h"
#include "nccl.h"
#include "nccl_facts.h"

static_assert(sizeof(ncclUniqueId) == 128 && std::is_trivially_copyable_v<ncclUniqueId>);
static_assert(sizeof(ncclConfig_t) == 80);
static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16);
static_assert(offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, trafficClass) == 44 && offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76);
static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclRedOp_t) == 4 && sizeof(ncclDataType_t) == 4 && sizeof(ncclScalarResidence_t) == 4);
// Any number is a value of these, so that a wrong one can be refused.
static_assert(std::is_same_v<std::underlying_type_t<ncclDataType_t>, int> && std::is_same_v<std::underlying_type_t<ncclRedOp_t>, int>);
static_assert(NCCL_VERSION_CODE == 22809 && NCCL_VERSION_CODE == NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
static_assert(std::is_same_v<cudaStream_t, struct CUstream_st*>);

extern "C" int isthmus_c_header_check(void);

namespace {

TEST(ApiHeader, CompilesAsC) { EXPECT_EQ(isthmus_c_header_check(), 80); }

TEST(ApiHeader, InitialiserLeavesEverythingUndefined) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(config.size, 80U);
  EXPECT_EQ(config.magic, 0xcafebeefU);
  EXPECT_EQ(config.version, 22809U);
  EXPECT_EQ(config.netName, nullptr);
  EXPECT_EQ(config.commName, nullptr);
  for (int field : {config.blocking, config.cgaClusterSize, config.minCTAs, config.maxCTAs, config.splitShare, config.trafficClass,
                    config.collnetEnable, config.CTAPolicy, config.shrinkShare, config.nvlsCTAs, config.nChannelsPerNetPeer,
                    config.nvlinkCentricSched}) {
    EXPECT_EQ(field, NCCL_CONFIG_UNDEF_INT);
  }
}

TEST(ApiHeader, AgreesWithNvidiasHeader) {
  const std::vector<Fact> nvidia = facts_of_nvidia_header();
  if (nvidia.empty()) GTEST_SKIP() << "no nccl.h of NVIDIA's on this machine to compare with";
  const std::vector<Fact> ours = facts_of_our_header();
  ASSERT_GE(ours.size(), nvidia.size());  // another release: only what all releases share
  for (size_t at = 0; at < nvidia.size(); ++at) {
    EXPECT_EQ(ours[at].name, nvidia[at].name);
    EXPECT_EQ(ours[at].value, nvidia[at].value) << ours[at].name;
  }
}

}  // namespace
