// SPDX-License-Identifier: Apache-2.0
// What `isthmus settings`, `algorithms` and `plan show` print, and how they refuse. Usage: test_tool ISTHMUS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/proc/job.h"

namespace {

using isthmus::proc::Ended;
using isthmus::proc::run_program;
using ::testing::HasSubstr;

std::string g_isthmus;  // set once by main

Ended tool(std::vector<std::string> words) {
  words.insert(words.begin(), g_isthmus);
  return run_program(std::move(words));
}

TEST(Tool, SettingsAsTextAndJson) {
  const Ended text = tool({"settings"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.output, HasSubstr("ISTHMUS_PEER_TIMEOUT = 60s"));
  const Ended json = tool({"settings", "--json"});
  const nlohmann::json document = nlohmann::json::parse(json.output, nullptr, false);
  ASSERT_TRUE(document.is_object()) << json.output;
  EXPECT_EQ(document["settings"][0]["source"], "default");
}

TEST(Tool, SettingsRefusesABadValueByItsName) {
  const Ended ended = run_program({"/usr/bin/env", "ISTHMUS_PEER_TIMEOUT=soon", g_isthmus, "settings"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("ISTHMUS_PEER_TIMEOUT"));
  EXPECT_THAT(ended.output, HasSubstr("soon"));
}

TEST(Tool, AlgorithmsAsTableAndJson) {
  EXPECT_THAT(tool({"algorithms"}).output, HasSubstr("| allreduce | ring |"));
  const nlohmann::json rows = nlohmann::json::parse(tool({"algorithms", "--json"}).output, nullptr, false);
  ASSERT_TRUE(rows.is_array());
  EXPECT_EQ(rows[0]["collective"], "allreduce");
}

TEST(Tool, ShowsPlans) {
  const Ended all = tool({"plan", "show", "allreduce:ring", "-n", "3"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.output, HasSubstr("allreduce/ring rank 2 of 3"));
  EXPECT_THAT(all.output, HasSubstr("recv_reduce"));
  const Ended one = tool({"plan", "show", "chain", "-n", "3", "--rank", "1", "--root", "2"});
  EXPECT_EQ(one.exit_code, 2) << "chain is an algorithm of broadcast and of reduce";
  const Ended dot = tool({"plan", "show", "broadcast:chain", "-n", "3", "--root", "2", "--format", "dot"});
  EXPECT_THAT(dot.output, HasSubstr("digraph"));
  const Ended trace = tool({"plan", "show", "reduce_scatter:ring", "-n", "3", "--format", "trace", "--bytes", "3M"});
  EXPECT_TRUE(nlohmann::json::accept(trace.output)) << trace.output;
}

TEST(Tool, RefusesWhatDoesNotExist) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"frobnicate"},
                                             {"settings", "--yaml"},
                                             {"plan", "show", "allreduce:magic"},
                                             {"plan", "show", "allreduce:ring", "-n", "0"},
                                             {"plan", "show", "allreduce:ring", "-n", "2", "--rank", "2"},
                                             {"plan", "show", "broadcast:chain", "--root", "2"}}) {
    EXPECT_EQ(tool(words).exit_code, 2) << (words.empty() ? "" : words.back());
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  g_isthmus = argv[1];
  return RUN_ALL_TESTS();
}
