// SPDX-License-Identifier: Apache-2.0
// What topology files, Slurm's variables and Kubernetes' labels say, and how they are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/discover/ip.h"
#include "topology/discover/place_file.h"
#include "topology/discover/schedulers.h"

namespace isthmus::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Self self(std::string hostname, const std::vector<std::string>& addresses = {}) {
  Self made{.host_id = 1, .hostname = std::move(hostname)};
  for (const std::string& text : addresses) made.addresses.push_back(parse_ip(text).value());
  return made;
}

/// "region=eu building=fra1", the lowest level first; or the error.
std::string said(const Result<std::vector<Claim>>& claims) {
  if (!claims.ok()) return "error: " + claims.status().text();
  std::string text;
  for (const Claim& claim : *claims) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name_of(claim.level), claim.name);
  return text;
}

std::string said(std::string_view file, const Self& host) {
  const auto parsed = parse_place_file(file);
  return parsed.ok() ? said(claims_of(*parsed, host, "FILE")) : "error: " + parsed.status().text();
}

std::string places(const std::string& entries) { return R"({"schema": "isthmus.topology/1", "places": {)" + entries + "}}"; }

TEST(Ip, NetworksContainAddresses) {
  const auto contained = [](std::string_view network, std::string_view ip) {
    return contains(parse_network(network).value(), parse_ip(ip).value());
  };
  EXPECT_TRUE(contained("10.1.0.0/16", "10.1.255.7"));
  EXPECT_FALSE(contained("10.1.0.0/16", "10.2.0.1"));
  EXPECT_TRUE(contained("10.128.0.0/9", "10.200.0.1"));
  EXPECT_FALSE(contained("10.128.0.0/9", "10.100.0.1"));
  EXPECT_TRUE(contained("0.0.0.0/0", "192.168.1.1"));
  EXPECT_FALSE(contained("0.0.0.0/0", "::1")) << "of the other family";
  EXPECT_TRUE(contained("fd00:1::/32", "fd00:1:2::3"));
  EXPECT_TRUE(contained("10.0.0.1", "10.0.0.1"));
  EXPECT_EQ(text_of(network_of(parse_ip("10.1.2.3").value(), 20)), "10.1.0.0/20");
}

TEST(Ip, RefusesOtherText) {
  EXPECT_THAT(parse_network("10.1.2.3/16").status().text(), HasSubstr("10.1.0.0/16 would be"));
  for (const char* bad : {"", "10.1/16", "10.1.0.0/33", "10.1.0.0/", "fd00::/129", "host/16"}) EXPECT_FALSE(parse_network(bad).ok()) << bad;
}

TEST(Ip, KnowsAddressesThatEveryHostHas) {
  for (const char* everywhere : {"127.0.0.1", "169.254.3.4", "::1", "fe80::1"}) EXPECT_TRUE(is_everywhere(parse_ip(everywhere).value()));
  for (const char* somewhere : {"10.0.0.1", "fd00::1"}) EXPECT_FALSE(is_everywhere(parse_ip(somewhere).value()));
}

TEST(PlaceFile, FindsHostsByNameAndNetwork) {
  const std::string file = places(R"("fra1-r[12]-*": "eu/fra1", "10.2.0.0/16": "eu/ams2/r9", "fd00:3::/32": "/lon3", "fra1-r1-*": "//r1")");
  EXPECT_EQ(said(file, self("fra1-r1-07")), "zone=r1 building=fra1 region=eu");
  EXPECT_EQ(said(file, self("FRA1-R2-07.example.org")), "building=fra1 region=eu") << "of a qualified name, the first part is enough";
  EXPECT_EQ(said(file, self("fra1-r3-07")), "");
  EXPECT_EQ(said(file, self("x", {"192.168.0.1", "10.2.9.9"})), "zone=r9 building=ams2 region=eu");
  EXPECT_EQ(said(file, self("x", {"fd00:3::7"})), "building=lon3");
}

TEST(PlaceFile, TheFirstEntryThatNamesALevelCounts) {
  const std::string file = places(R"("a7": "/special", "a*": "eu/common/r1", "*": "other/other/other")");
  EXPECT_EQ(said(file, self("a7")), "zone=r1 building=special region=eu");
  const auto claims = claims_of(parse_place_file(file).value(), self("a7"), "FILE");
  EXPECT_EQ(claims[1].source, "FILE: \"a7\"");
  EXPECT_EQ(claims[1].rung, Rung::file);
}

TEST(PlaceFile, LinesAboutThisHost) {
  EXPECT_EQ(said("# who I am\nDEVICE_NAME=x\nregion = eu\r\nSITE='fra1'\nZONE=\"r 1\"\n", self("any")), "zone=r 1 building=fra1 region=eu");
  EXPECT_EQ(said("BUILDING=fra1\nZONE=\n", self("any")), "building=fra1");
}

TEST(PlaceFile, RefusesWithTheLineOrTheField) {
  const auto error = [](const std::string& file) { return said(file, self("a")); };
  EXPECT_THAT(error("{\n  \"schema\": oops\n}"), AllOf(HasSubstr("error: parse error at line 2"), HasSubstr("column")));
  EXPECT_THAT(error(R"({"schema": 1E562})"), HasSubstr("number overflow parsing '1E562'"));
  EXPECT_THAT(error(R"({"places": {}})"), HasSubstr(R"(schema must be "isthmus.topology/1")"));
  EXPECT_THAT(error(R"({"schema": "isthmus.topology/2", "places": {}})"), HasSubstr("schema must be"));
  EXPECT_THAT(error(R"({"schema": "isthmus.topology/1", "hosts": {}})"), HasSubstr("'hosts' is not known"));
  EXPECT_THAT(error(R"({"schema": "isthmus.topology/1", "places": []})"), HasSubstr("places must be an object"));
  EXPECT_THAT(error(places(R"("a": 3)")), HasSubstr(R"(places: "a": the path must be text)"));
  EXPECT_THAT(error(places(R"("a": "x/y/z/q")")), HasSubstr("more than three parts"));
  EXPECT_THAT(error(places(R"("a": "//")")), HasSubstr("the path is empty"));
  EXPECT_THAT(error(places(R"("a": "b\u0007c")")), HasSubstr("is no name"));
  EXPECT_THAT(error(places(R"("10.1.2.0/16": "x")")), HasSubstr("10.1.0.0/16 would be"));
  EXPECT_THAT(error(places(R"("": "x")")), HasSubstr("the pattern is empty"));
  EXPECT_THAT(error(places(R"("a": "x", "b": "x", "a": "y")")), HasSubstr("'a' is there twice"));
  EXPECT_THAT(error("REGION=eu\nnonsense\n"), HasSubstr("line 2: 'nonsense' has no '='"));
  EXPECT_THAT(error("REGION=a/b\n"), HasSubstr("line 1: region 'a/b': is no name"));
  EXPECT_THAT(error("SITE=a\nBUILDING=b\n"), HasSubstr("line 2: the building is named for the second time"));
  EXPECT_THAT(error("NAME=x\n"), HasSubstr("no line says REGION="));
  EXPECT_THAT(error(""), HasSubstr("no line says REGION="));
  EXPECT_THAT(error(places("\"a\": \"" + std::string(101, 'x') + "\"")), HasSubstr("1 to 100"));
}

TEST(Slurm, TheLeafIsTheZone) {
  EXPECT_EQ(said(slurm_claims("core.leaf3.node17", "switch.switch.node", "")), "zone=leaf3");
  EXPECT_EQ(said(slurm_claims("leaf3.node17.example.org", "switch.node", "")), "zone=leaf3") << "dots in the node's name";
  EXPECT_EQ(said(slurm_claims("node17", "node", "")), "") << "a flat network";
  EXPECT_EQ(said(slurm_claims("block2.node17", "block.node", "")), "zone=block2");
}

TEST(Slurm, LevelsAreToldFromTheLeafUp) {
  EXPECT_EQ(said(slurm_claims("top.mid.leaf.n", "switch.switch.switch.node", "region,building,zone")), "zone=leaf building=mid region=top");
  EXPECT_EQ(said(slurm_claims("top.mid.leaf.n", "switch.switch.switch.node", "building,-")), "building=mid");
  EXPECT_EQ(said(slurm_claims("leaf.n", "switch.node", "region,building,zone")), "zone=leaf");
  EXPECT_THAT(said(slurm_claims("leaf.n", "switch.node", "rack")), HasSubstr("ISTHMUS_SLURM_LEVELS: 'rack' is no level"));
}

TEST(Slurm, RefusesWhatDoesNotFitItsPattern) {
  for (const char* address : {"", "n", "a..n"}) {
    EXPECT_THAT(said(slurm_claims(address, "switch.switch.node", "")), HasSubstr("does not fit SLURM_TOPOLOGY_ADDR_PATTERN")) << address;
  }
  EXPECT_THAT(said(slurm_claims("a.b", "switch.switch", "")), HasSubstr("does not fit"));
}

TEST(Kubernetes, ZonesAreBuildings) {
  EXPECT_EQ(
      said(kubernetes_claims("app=\"train\\\"er\"\ntopology.kubernetes.io/region=\"eu-1\"\ntopology.kubernetes.io/zone=\"eu-1a\"", "F")),
      "region=eu-1 building=eu-1a");
  EXPECT_EQ(said(kubernetes_claims("app=\"x\"\n", "F")), "");
  EXPECT_THAT(said(kubernetes_claims("app=\"x\"\nnonsense\n", "F")), HasSubstr("line 2: 'nonsense' is no label"));
  EXPECT_THAT(said(kubernetes_claims("topology.kubernetes.io/zone=bare\n", "F")),
              HasSubstr("line 1: topology.kubernetes.io/zone: has no value"));
}

}  // namespace
}  // namespace isthmus::topology
