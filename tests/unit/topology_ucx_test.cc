// SPDX-License-Identifier: Apache-2.0
// topology/discover/ucx.h: endpoints' lanes as UCX lists them, and this host's devices where UCX is installed.
#include "topology/discover/ucx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::topology {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Ucx, ListingsOfLanes) {
  EXPECT_THAT(lanes_of_listing("#\n# UCP endpoint \n#\n"
                               "#               peer: <no debug data>\n"
                               "#                 lane[0]:  3:sysv/memory.0 md[2]           -> md[2]/sysv/sysdev[255] rma_bw#0\n"
                               "#                 lane[1]:  1:tcp/eth0.0 md[1]              -> md[1]/tcp/sysdev[255] am am_bw#0 wireup\n"
                               "#                 lane[2]: 12:rc_mlx5/mlx5_0:1.1 md[4]      -> md[4]/ib/sysdev[1] am_bw#1\n"
                               "#                 lane[3]: 12:rc_mlx5/mlx5_0:1.0 md[4]      -> md[4]/ib/sysdev[1] am_bw#2\n"
                               "#\n#                 am_send: 0..<egr/short>..8185..<rndv>..(inf)\n"),
              ElementsAre("tcp/eth0", "sysv/memory", "rc_mlx5/mlx5_0:1"))
      << "the one for small messages first, each once, ports kept";
  EXPECT_THAT(lanes_of_listing("lane["), IsEmpty());
  EXPECT_THAT(lanes_of_listing("lane[0]: tcp"), IsEmpty()) << "no resource's number";
}

#if ISTHMUS_WITH_UCX

TEST(Ucx, ThisHostReachesItself) {
  const auto ucx = Ucx::open();
  ASSERT_TRUE(ucx.ok()) << ucx.status().text();
  if (*ucx == nullptr) GTEST_SKIP() << "UCX's libraries are not installed";
  const Part devices = (*ucx)->devices();
  EXPECT_EQ(devices.kind, "ucx");
  EXPECT_THAT(devices.name, Not(IsEmpty()));
  ASSERT_THAT(devices.children, Not(IsEmpty()));
  for (const Part& device : devices.children) {
    EXPECT_EQ(device.kind, "transport");
    EXPECT_NE(device.name.find('/'), std::string::npos) << device.name;
    EXPECT_THAT(device.model, AnyOf("network", "shared memory", "accelerator", "self"));
  }
  const auto address = (*ucx)->address();
  ASSERT_TRUE(address.ok()) << address.status().text();
  const auto lanes = (*ucx)->lanes_to(*address);
  ASSERT_TRUE(lanes.ok()) << lanes.status().text();
  ASSERT_THAT(*lanes, Not(IsEmpty()));
  for (const std::string& lane : *lanes) {
    const bool known = std::any_of(devices.children.begin(), devices.children.end(), [&](const Part& one) { return one.name == lane; });
    EXPECT_TRUE(known) << lane;
  }
}

#endif

}  // namespace
}  // namespace isthmus::topology
