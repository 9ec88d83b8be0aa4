// SPDX-License-Identifier: Apache-2.0
// Addresses as text, and which addresses of a host are told to others, on invented hosts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/interface.h"
#include "transport/tcp/interfaces.h"

namespace isthmus::transport {
namespace {

Address at(const std::string& text) { return parse_address(text).value(); }

TEST(Address, SurvivesText) {
  for (const char* text : {"10.0.0.1:4000", "0.0.0.0:0", "255.255.255.255:65535", "[fe80::1%2]:4000", "[2001:db8::1]:1", "[::]:80"}) {
    const Result<Address> parsed = parse_address(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().text();
    EXPECT_EQ(to_string(*parsed), text);
  }
  EXPECT_EQ(at("[::1%lo]:9"), at("[::1%1]:9")) << "the loopback interface is always index 1";
  EXPECT_EQ(to_string(Address{}), "(no address)");
}

TEST(Address, RefusesAnythingElse) {
  for (const char* text : {"", ":", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:4x", "10.0.0:1", "host:1", "::1:80",
                           "[::1]80", "[::1", "[]:1", "[::1%]:1", "[::1%nosuchinterface]:1", "[10.0.0.1]:1"}) {
    const Result<Address> parsed = parse_address(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::invalid_argument);
  }
}

InterfaceAddress interface(const std::string& name, const std::string& address) {
  return {.interface = name, .address = at(address), .up = true};
}

InterfaceAddress loopback() {
  InterfaceAddress lo = interface("lo", "127.0.0.1:0");
  lo.loopback = true;
  return lo;
}

/// A worker node as found in the wild: two NICs, InfiniBand, containers, a tunnel, a NIC that is down.
std::vector<InterfaceAddress> busy_host() {
  std::vector<InterfaceAddress> all = {loopback(),
                                       interface("eth0", "10.0.0.5:0"),
                                       interface("docker0", "172.17.0.1:0"),
                                       interface("veth1a2b", "169.254.7.7:0"),
                                       interface("virbr0", "192.168.122.1:0"),
                                       interface("br0", "10.9.0.1:0"),
                                       interface("wg0", "10.8.0.1:0"),
                                       interface("eth1", "10.1.0.5:0"),
                                       interface("ib0", "10.2.0.5:0"),
                                       interface("eth2", "10.3.0.5:0"),
                                       interface("eth0", "[2001:db8::5]:0"),
                                       interface("eth0", "[fe80::5%2]:0")};
  all[5].bridge = true;
  all[6].tunnel = true;
  all[9].up = false;
  return all;
}

std::vector<std::string> chosen(const std::vector<InterfaceAddress>& all, std::string_view ifname, std::string_view family = "") {
  const Result<std::vector<Address>> addresses = choose_addresses(all, ifname, family);
  std::vector<std::string> texts;
  if (!addresses.ok()) return {addresses.status().text()};
  for (const Address& address : *addresses) texts.push_back(to_string(address));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Interfaces, DefaultTakesWhatOthersCanReach) {
  EXPECT_EQ(chosen(busy_host(), ""), (Texts{"10.2.0.5:0", "10.0.0.5:0", "10.1.0.5:0", "[2001:db8::5]:0"}));
  EXPECT_EQ(chosen(busy_host(), "", "AF_INET6"), (Texts{"[2001:db8::5]:0"}));
  EXPECT_EQ(chosen(busy_host(), "", "AF_INET"), (Texts{"10.2.0.5:0", "10.0.0.5:0", "10.1.0.5:0"}));
}

TEST(Interfaces, DefaultFallsBackStepByStep) {
  EXPECT_EQ(chosen(busy_host(), "^eth,ib"), (Texts{"10.9.0.1:0", "10.8.0.1:0"})) << "bridges and tunnels";
  EXPECT_EQ(chosen(busy_host(), "^eth,ib,br,wg"), (Texts{"172.17.0.1:0", "169.254.7.7:0", "192.168.122.1:0"}));
  EXPECT_EQ(chosen(busy_host(), "^eth,ib,br,wg,docker,veth,virbr"), (Texts{"127.0.0.1:0"}));
  EXPECT_EQ(chosen({loopback(), interface("eth0", "[fe80::9%3]:0")}, ""), (Texts{"[fe80::9%3]:0"})) << "the scope is kept";
}

TEST(Interfaces, NamesArePrefixesInOrderOfPreference) {
  EXPECT_EQ(chosen(busy_host(), "eth1,eth0"), (Texts{"10.1.0.5:0", "10.0.0.5:0", "[2001:db8::5]:0"}));
  EXPECT_EQ(chosen(busy_host(), "eth"), (Texts{"10.0.0.5:0", "10.1.0.5:0", "[2001:db8::5]:0"}));
  EXPECT_EQ(chosen(busy_host(), "docker"), (Texts{"172.17.0.1:0"})) << "a named interface is used whatever it is";
  EXPECT_EQ(chosen(busy_host(), "lo"), (Texts{"127.0.0.1:0"}));
  EXPECT_EQ(chosen(busy_host(), ",eth1,"), (Texts{"10.1.0.5:0"}));
}

TEST(Interfaces, EqualsIsExactAndCaretExcludes) {
  const std::vector<InterfaceAddress> all = {interface("eth1", "10.0.0.1:0"), interface("eth10", "10.0.0.2:0"), loopback()};
  EXPECT_EQ(chosen(all, "=eth1"), (Texts{"10.0.0.1:0"}));
  EXPECT_EQ(chosen(all, "^=eth1"), (Texts{"10.0.0.2:0"}));
  EXPECT_EQ(chosen(all, "^eth1"), (Texts{"127.0.0.1:0"}));
}

TEST(Interfaces, NothingFoundSaysWhatExists) {
  const std::string text = chosen({loopback()}, "=eth0").front();
  EXPECT_NE(text.find("NCCL_SOCKET_IFNAME=\"=eth0\""), std::string::npos) << text;
  EXPECT_NE(text.find("lo (IPv4)"), std::string::npos) << text;
  EXPECT_NE(chosen(busy_host(), "", "inet").front().find("AF_INET or AF_INET6"), std::string::npos);
}

TEST(Interfaces, ThisHostHasSome) {
  const Result<std::vector<InterfaceAddress>> all = list_interface_addresses();
  ASSERT_TRUE(all.ok()) << all.status().text();
  EXPECT_FALSE(all->empty());
}

}  // namespace
}  // namespace isthmus::transport
