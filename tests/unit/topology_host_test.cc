// SPDX-License-Identifier: Apache-2.0
// topology/discover/host.h: hosts that hwloc describes, invented and as XML, and this one.
#include "topology/discover/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/drawing.h"

namespace isthmus::topology {
namespace {

using ::testing::HasSubstr;

std::string drawn(const HostSource& source) {
  const auto host = read_host(source);
  return host.ok() ? to_text(box_of(*host)) : "error: " + host.status().text();
}

TEST(Host, ThisOneHasCpus) {
  const auto host = read_host();
  ASSERT_TRUE(host.ok()) << host.status().text();
  EXPECT_EQ(host->kind, "host");
  EXPECT_FALSE(host->cpus.empty());
}

#if ISTHMUS_WITH_HWLOC

TEST(Host, PackagesMemoriesAndSharedCaches) {
  EXPECT_EQ(drawn({.synthetic = "pack:2 [numa(memory=1073741824)] l3:2(size=16777216) l2:4(size=1048576) core:1 pu:2"}),
            "host  16 cores, CPUs 0-31\n"
            "├─ package 0  8 cores, CPUs 0-15\n"
            "│  ├─ NUMA node 0  1 GiB\n"
            "│  ├─ L3 16 MiB  4 cores, CPUs 0-7\n"
            "│  └─ L3 16 MiB  4 cores, CPUs 8-15\n"
            "└─ package 1  8 cores, CPUs 16-31\n"
            "   ├─ NUMA node 1  1 GiB\n"
            "   ├─ L3 16 MiB  4 cores, CPUs 16-23\n"
            "   └─ L3 16 MiB  4 cores, CPUs 24-31\n");
  EXPECT_THAT(drawn({.synthetic = "pack:1 l2:2(size=2097152) core:4 pu:1"}), HasSubstr("L2 2 MiB  4 cores, CPUs 4-7")) << "shared by cores";
}

TEST(Host, DevicesFromXml) {
  const std::string xml = R"(<?xml version="1.0" encoding="UTF-8"?>
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="4294967296"/>
  <object type="Package" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="3">
   <info name="CPUModel" value=" Some CPU "/>
   <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4">
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
   </object>
   <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6">
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="7"/>
   </object>
  </object>
  <object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
   <object type="PCIDev" gp_index="9" pci_busid="0000:01:00.0" pci_type="0200 [15b3:1019] [15b3:0008] 00" pci_link_speed="15.753846">
    <object type="OSDev" gp_index="10" name="eth7" osdev_type="2"/>
    <object type="OSDev" gp_index="11" name="mlx5_0" osdev_type="3"/>
    <object type="OSDev" gp_index="12" name="sda" osdev_type="0"/>
   </object>
  </object>
 </object>
</topology>)";
  EXPECT_EQ(drawn({.xml = xml}),
            "host  2 cores, CPUs 0-1\n"
            "├─ NUMA node 0  4 GiB\n"
            "├─ package 0  2 cores, CPUs 0-1, Some CPU\n"
            "├─ network eth7  15.8 GB/s over PCI\n"
            "└─ rdma mlx5_0  15.8 GB/s over PCI\n");
}

TEST(Host, RefusesWhatHwlocDoesNotAccept) {
  EXPECT_THAT(drawn({.synthetic = "nonsense"}), HasSubstr("error: hwloc does not accept the description 'nonsense'"));
  EXPECT_THAT(drawn({.xml = "<topology"}), HasSubstr("error: hwloc does not accept the XML"));
}

#else

TEST(Host, SaysThatHwlocIsMissing) { EXPECT_THAT(drawn({.synthetic = "pack:1 pu:2"}), HasSubstr("has no hwloc")); }

#endif

}  // namespace
}  // namespace isthmus::topology
