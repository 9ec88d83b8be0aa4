// SPDX-License-Identifier: Apache-2.0
// topology/discover/ladder.h: the order of the rungs, files that cannot be used, address prefixes.
#include "topology/discover/ladder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace isthmus::topology {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Ladder : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ + name) << text;
    return folder_ + name;
  }
  Result<Place> find() {
    warnings_.clear();
    return find_place(settings_, self_, warnings_);
  }
  std::string found() {
    const auto place = find();
    return place.ok() ? describe(*place) : "error: " + place.status().text();
  }

  std::string folder_ = fmt::format("{}/ladder-{}/", std::filesystem::temp_directory_path().string(), getpid());
  Settings settings_;
  Self self_{.host_id = 1, .hostname = "a1", .addresses = {}};
  std::vector<std::string> warnings_;
};

TEST_F(Ladder, NobodySaysAnything) {
  EXPECT_EQ(found(), "not known");
  EXPECT_FALSE(needs_addresses(settings_));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Ladder, EveryRungFillsWhatThoseAboveLeaveOpen) {
  settings_.topology_prefix = "region=8,building=16";
  self_.addresses = {parse_ip("127.0.0.1").value(), parse_ip("10.1.2.3").value()};
  EXPECT_EQ(found(),
            "region 10.0.0.0_8 (ISTHMUS_TOPOLOGY_PREFIX and address 10.1.2.3), building 10.1.0.0_16 "
            "(ISTHMUS_TOPOLOGY_PREFIX and address 10.1.2.3)");
  settings_.topology_labels = write("labels", "topology.kubernetes.io/zone=\"k\"\n");
  EXPECT_THAT(found(), HasSubstr(fmt::format("building k ({}: topology.kubernetes.io/zone)", settings_.topology_labels)));
  settings_.slurm_address = "top.leaf.n";
  settings_.slurm_pattern = "switch.switch.node";
  settings_.slurm_levels = "building,zone";
  EXPECT_THAT(found(), AllOf(HasSubstr("building top (SLURM_TOPOLOGY_ADDR)"), HasSubstr("zone leaf (SLURM_TOPOLOGY_ADDR)")));
  settings_.topology_file = write("file", "ZONE=z\nBUILDING=f\n");
  EXPECT_THAT(found(), AllOf(HasSubstr("region 10.0.0.0_8"), HasSubstr("building f"), HasSubstr("zone z")));
  settings_.site = "s";
  settings_.region = "r";
  EXPECT_THAT(found(), AllOf(HasSubstr("region r (ISTHMUS_REGION), building s (ISTHMUS_SITE)"), HasSubstr("zone z")));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(find()->claims.size(), 9U) << "those that lost are kept, to be compared";
}

TEST_F(Ladder, SiteMayBeAnyText) {
  settings_.site = "a/b";
  EXPECT_EQ(member_of(*find(), Level::building), "a/b");
  settings_.zone = "a/b";
  EXPECT_THAT(found(), HasSubstr("error: ISTHMUS_ZONE: 'a/b': is no name"));
}

TEST_F(Ladder, FilesThatCannotBeUsedAreErrors) {
  settings_.topology_file = folder_ + "missing";
  EXPECT_THAT(found(), AllOf(HasSubstr("error: ISTHMUS_TOPOLOGY_FILE: " + folder_ + "missing"), HasSubstr("No such file")));
  settings_.topology_file = folder_;
  EXPECT_THAT(found(), AllOf(HasSubstr("error: ISTHMUS_TOPOLOGY_FILE: "), HasSubstr("cannot be read")));
  settings_.topology_file = write("bad", "{\"schema\": 3}");
  EXPECT_THAT(found(), HasSubstr("bad: schema must be"));
  settings_.topology_file.clear();
  settings_.topology_labels = folder_ + "missing";
  EXPECT_THAT(found(), HasSubstr("error: ISTHMUS_TOPOLOGY_LABELS: "));
  settings_.topology_labels = write("labels", "nonsense");
  EXPECT_THAT(found(), HasSubstr("labels: line 1"));
}

TEST_F(Ladder, FilesThatSayNothingAreWarnings) {
  settings_.topology_file = write("file", R"({"schema": "isthmus.topology/1", "places": {"b*": "x"}})");
  settings_.topology_labels = write("labels", "app=\"x\"\n");
  EXPECT_EQ(found(), "not known");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("says nothing about host a1"), HasSubstr("has neither topology.kubernetes.io/zone")));
}

TEST_F(Ladder, OddSlurmVariablesAreLeftAsideUnlessSomebodyCountsOnThem) {
  settings_.slurm_address = "n";
  settings_.slurm_pattern = "switch.node";
  EXPECT_EQ(found(), "not known");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("does not fit")));
  settings_.slurm_levels = "zone";
  EXPECT_THAT(found(), HasSubstr("error: SLURM_TOPOLOGY_ADDR=n"));
}

TEST_F(Ladder, Prefixes) {
  self_.addresses = {parse_ip("fe80::1").value(), parse_ip("fd00:1:2::3").value(), parse_ip("10.1.2.3").value()};
  settings_.topology_prefix = "zone=24";
  EXPECT_THAT(found(), HasSubstr("zone 10.1.2.0_24"));
  settings_.topology_prefix = "building=16/48";
  EXPECT_THAT(found(), HasSubstr("building fd00:1:2::_48"));
  self_.addresses.clear();
  EXPECT_EQ(found(), "not known");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("has no address for 'building=16/48'")));
  for (const char* bad : {"building", "building=", "rack=3", "host=32", "zone=33", "zone=24/129", "zone/2=4", "=24", "zone=-1"}) {
    settings_.topology_prefix = bad;
    EXPECT_THAT(found(), AllOf(HasSubstr("error: ISTHMUS_TOPOLOGY_PREFIX"), HasSubstr("LEVEL=BITS"))) << bad;
  }
}

}  // namespace
}  // namespace isthmus::topology
